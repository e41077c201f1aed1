"""How weights move."""

from __future__ import annotations

from dataclasses import dataclass

from areal.api.config.check import above, at_least, fail, one_of
from areal.api.constants import DEFAULT_WARMUP_STEPS_PROPORTION


@dataclass
class OptimizerConfig:
    """Which optimiser runs, at what learning rate over time.

    ``min_lr_ratio`` is the floor of the schedule as a share of ``lr``. ``warmup_steps`` wins over
    ``warmup_steps_proportion``. The loss-scale fields serve float16 engines only.
    """

    type: str = "adam"
    lr: float = 0.001
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    min_lr_ratio: float = 0.0
    lr_scheduler_type: str = "constant"
    warmup_steps_proportion: float = DEFAULT_WARMUP_STEPS_PROPORTION
    warmup_steps: int | None = None
    initial_loss_scale: float = 2.0**32
    min_loss_scale: float = 1.0
    loss_scale_window: float = 5
    hysteresis: int = 2
    gradient_clipping: float = 1.0

    def __post_init__(self) -> None:
        one_of(self, "type", ("adam", "sgd", "adam_bf16"))
        one_of(self, "lr_scheduler_type", ("constant", "linear", "cosine"))
        at_least(self, 0, "lr", "weight_decay", "min_lr_ratio")
        above(self, 0, "eps", "gradient_clipping")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                fail(self, name, "lie in [0, 1)", getattr(self, name))
        # Negative warm-ups are refused by get_num_warmup_steps and, for a YAML file, by the
        # engine's configuration, so that the former can be asked about any value.

    def check_warmup(self) -> None:
        """Raise if the warm-up is impossible.

        Raises:
            ConfigError: It is negative, or longer than the run.
        """
        at_least(self, 0, "warmup_steps")
        if not 0 <= self.warmup_steps_proportion <= 1:
            fail(self, "warmup_steps_proportion", "lie in [0, 1]", self.warmup_steps_proportion)
