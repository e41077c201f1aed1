"""When a run saves, evaluates and write what it needs to be resumed."""

from __future__ import annotations

from dataclasses import dataclass

from areal.api.config.check import above, at_least, one_of
from areal.api.config.defaults import ours
from areal.api.constants import MISSING


@dataclass
class _Timer:
    """Due whenever one of its periods has passed; null is never."""

    experiment_name: str = MISSING
    trial_name: str = MISSING
    fileroot: str = MISSING
    freq_epochs: int | None = None
    freq_steps: int | None = None
    freq_secs: int | None = None

    def __post_init__(self) -> None:
        above(self, 0, "freq_epochs", "freq_steps", "freq_secs")


@dataclass
class EvaluatorConfig(_Timer):
    """When the model is evaluated."""

    eval_before_train: bool = False


@dataclass
class SaverConfig(_Timer):
    """When the model is saved for use; "async" writes a copy of it while training goes on."""

    mode: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "mode", ("auto", "sync", "async"))


# `on` and `off` without quotes are booleans in YAML and reach a text field as True and False.
_RECOVER_ON = ("auto", "on", "fault", "resume", "True", "true")
_RECOVER_OFF = ("disabled", "off", "False", "false")


@dataclass
class RecoverConfig(_Timer):
    """When a checkpoint for resuming is written, and whether a run starts from one."""

    mode: str = ours("recover.mode")
    retries: int = 3
    no_save_optim: bool = False
    no_load_optim: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "mode", _RECOVER_ON + _RECOVER_OFF)
        at_least(self, 0, "retries")

    @property
    def enabled(self) -> bool:
        """True where a run resumes by itself."""
        return self.mode in _RECOVER_ON
