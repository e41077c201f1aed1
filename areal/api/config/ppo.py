"""Policy optimisation: the actor, its critic, and a teacher."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from areal.api.config.batch import NormConfig
from areal.api.config.check import above, at_least, fail, one_of
from areal.api.config.defaults import ours
from areal.api.config.rollout import InferenceEngineConfig
from areal.api.config.train_engine import TrainEngineConfig
from areal.api.constants import (
    PROX_LOGP_METHOD_RECOMPUTE,
    PROX_LOGP_METHOD_REUSE_TRAIN_LOGP,
    PROX_LOGP_METHODS_ALL,
    ProxLogpMethod,
)
from areal.api.errors import ConfigError

REJECTION_METRICS = ("binary_kl", "kl_k1", "kl_k2", "kl_k3", "ratio")


@dataclass
class RejectionSamplingConfig:
    """Filters what is too far off policy, by the ratio of proximal to behaviour policy.

    Args:
        level: "token" judges each token, "sequence" all tokens of an answer together.
        action: "mask" leaves out what lies outside the bounds; "clamp", for a ratio, limits its
            weight.
        metric: "ratio"; an estimate "kl_k1", "kl_k2" or "kl_k3" of the divergence; or
            "binary_kl", that of the token against all others, in whichever direction is larger.
        agg: "mean", "sum" or "max" of the tokens' measures makes a sequence's.
        upper: Largest accepted measure; above 1 for a ratio.
        lower: Smallest accepted measure, above 0 for a ratio; null is no bound, which is 0 for
            "clamp".
    """

    level: str = "token"
    action: str = "mask"
    metric: str = "ratio"
    agg: str = "mean"
    upper: float = 5.0
    lower: float | None = None

    def __post_init__(self) -> None:
        one_of(self, "level", ("token", "sequence"))
        one_of(self, "action", ("mask", "clamp"))
        one_of(self, "metric", REJECTION_METRICS)
        one_of(self, "agg", ("mean", "sum", "max"))
        above(self, 1 if self.metric == "ratio" else 0, "upper")
        if self.action == "clamp":
            if self.metric != "ratio":
                fail(
                    self, "action", "be mask where metric is not a weight (only ratio is)", "clamp"
                )
            self.lower = 0.0 if self.lower is None else self.lower
            at_least(self, 0, "lower")
        elif self.metric == "ratio":
            above(self, 0, "lower")
        if self.lower is not None and not self.lower <= self.upper:
            fail(self, "lower", f"not exceed upper={self.upper}", self.lower)
        if self.level == "token" and self.agg != "mean":
            warnings.warn(
                f"rejection_sampling.agg {self.agg!r} has no effect at level 'token'; "
                "set level 'sequence'",
                stacklevel=3,
            )


@dataclass
class PPOActorConfig(TrainEngineConfig):
    """How the policy is optimised: rewards, advantages and the loss.

    ``reward_norm`` acts on the reward of each answer and ``adv_norm`` on the advantage of each
    token; null leaves them as they are. The policy ratio is clipped to
    [1 - ``eps_clip``, 1 + ``eps_clip_higher``], with ``eps_clip_higher`` null for a symmetric
    bound; ``c_clip`` is the dual clip. ``gae_lambda`` is a number, or the import path of a function
    that takes ``gae_lambda_kwargs``.
    """

    ppo_n_minibatches: int = 4
    eps_clip: float = 0.2
    eps_clip_higher: float | None = None
    c_clip: float | None = None
    m2_threshold: float | None = None
    reward_norm: NormConfig | None = None
    reward_scaling: float = 1.0
    reward_bias: float = 0.0
    reward_clip: float = 20.0
    overlong_reward_penalty: bool = False
    overlong_tokens: int | None = None
    overlong_penalty_factor: float | None = None
    mask_no_eos_with_zero: bool = False
    discount: float = 1.0
    gae_lambda: float | str = 1.0
    gae_lambda_kwargs: dict[str, Any] = field(default_factory=dict)
    gae_timestep_unit: str = "token"
    adv_norm: NormConfig | None = None
    kl_ctl: float = 0.1
    kl_estimator: str = "k1"
    use_sapo_loss: bool = False
    sapo_tau_pos: float = 1.0
    sapo_tau_neg: float = 1.05
    use_cispo_loss: bool = False
    recompute_logprob: bool = False
    use_decoupled_loss: bool = False
    rejection_sampling: RejectionSamplingConfig | None = None
    importance_sampling_level: str = "token"
    prox_logp_method: str = PROX_LOGP_METHOD_RECOMPUTE
    log_agent_stats: bool = False
    log_agent_stats_keys: list[str] = field(default_factory=list)
    max_new_tokens: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "ppo_n_minibatches", "max_new_tokens")
        at_least(self, 0, "eps_clip", "eps_clip_higher", "kl_ctl", "overlong_tokens")
        above(self, 0, "reward_clip", "m2_threshold", "sapo_tau_pos", "sapo_tau_neg")
        above(self, 1, "c_clip")
        one_of(self, "gae_timestep_unit", ("token", "turn"))
        one_of(self, "kl_estimator", ("k1", "k2", "k3"))
        one_of(self, "importance_sampling_level", ("token", "sequence"))
        one_of(self, "prox_logp_method", PROX_LOGP_METHODS_ALL)
        for name in ("discount", "gae_lambda"):
            value = getattr(self, name)
            if not isinstance(value, str) and not 0 <= value <= 1:
                fail(self, name, "lie in [0, 1]", value)
        self._check_combinations()
        self._check_reward_norm()

    def should_compute_prox_logp(self) -> bool:
        """Return True where the model runs over the batch once more before the update."""
        if self.use_decoupled_loss:
            return not ProxLogpMethod(self.prox_logp_method).skips_forward_pass()
        return self.recompute_logprob

    def _check_reward_norm(self) -> None:
        norm = self.reward_norm
        if isinstance(norm, Mapping):  # of a script, or OmegaConf's
            norm = self.reward_norm = NormConfig(**norm)
        if norm is not None and norm.mean_level == "group" and norm.group_size == 1:
            warnings.warn(
                "reward_norm.mean_level 'group' with group_size 1 leaves no reward: each one is "
                "its group's mean; take several samples of a prompt (gconfig.n_samples, which "
                "group_size follows where no file sets it), or set mean_level to batch",
                stacklevel=4,
            )

    def _check_combinations(self) -> None:
        if self.use_sapo_loss and self.use_cispo_loss:
            raise ConfigError("use_sapo_loss and use_cispo_loss exclude each other; set one")
        if self.overlong_reward_penalty and not (
            self.overlong_tokens and self.overlong_penalty_factor
        ):
            raise ConfigError(
                "overlong_reward_penalty needs overlong_tokens and overlong_penalty_factor"
            )
        if self.overlong_reward_penalty and (self.overlong_tokens or 0) > self.max_new_tokens:
            fail(
                self,
                "overlong_tokens",
                f"not exceed max_new_tokens={self.max_new_tokens}",
                self.overlong_tokens,
            )
        reuses = self.prox_logp_method == PROX_LOGP_METHOD_REUSE_TRAIN_LOGP
        if reuses and self.ppo_n_minibatches != 1:
            raise ConfigError(
                "prox_logp_method reuse_train_logp needs ppo_n_minibatches 1, found "
                f"{self.ppo_n_minibatches}: after the first of several updates the "
                "log-probabilities of the training pass are no longer those of the proximal policy"
            )


@dataclass
class PPOCriticConfig(TrainEngineConfig):
    """Describes the value model and how it is optimised, on the processes of the actor.

    ``path`` names a language model, which gets a new head, or a critic; ``is_critic`` must stay
    true. ``optimizer`` null is the actor's, and so is a ``backend`` that the file does not name. A
    value moves by at most ``eps_clip`` from that of the rollout before moving further gains
    nothing.
    """

    is_critic: bool = ours("critic.is_critic")
    ppo_n_minibatches: int = 4
    eps_clip: float = 0.5
    mask_no_eos_with_zero: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "ppo_n_minibatches")
        above(self, 0, "eps_clip")


@dataclass
class TeacherConfig:
    """Describes a model whose log-probabilities the policy is drawn to."""

    engine_type: str = "rollout"
    rollout: InferenceEngineConfig | None = None
    train: PPOActorConfig | None = None
    path: str = ""
    offload: bool = False
    rl_loss_weight: float = 1.0
    distill_loss_weight: float = 0.005

    def __post_init__(self) -> None:
        one_of(self, "engine_type", ("rollout", "train"))
        at_least(self, 0, "rl_loss_weight", "distill_loss_weight")
