"""Constants that configuration and algorithms share."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

# OmegaConf's mark of a mandatory value, spelt out so that OmegaConf need not be imported.
MISSING: Final[Any] = "???"

DEFAULT_WARMUP_STEPS_PROPORTION: Final = 0.001


class ProxLogpMethod(StrEnum):
    """The ways to get the log-probabilities of the proximal policy.

    ``recompute`` runs the model once more before the update. ``loglinear`` interpolates between
    the behaviour and the current policy by weight version, and needs no such pass. ``metrics``
    recomputes and reports how good the interpolation would have been. ``reuse_train_logp`` takes
    the log-probabilities of the training pass itself, which are those of the proximal policy as
    long as the batch is not split into several updates.
    """

    RECOMPUTE = "recompute"
    LOGLINEAR = "loglinear"
    METRICS = "metrics"
    REUSE_TRAIN_LOGP = "reuse_train_logp"

    def skips_forward_pass(self) -> bool:
        """Return True where no pass of the model precedes the update."""
        return self in (ProxLogpMethod.LOGLINEAR, ProxLogpMethod.REUSE_TRAIN_LOGP)


class ProxApproxMethod(StrEnum):
    """The approximations of the proximal policy that ``metrics`` compares."""

    LOGLINEAR = "loglinear"
    LINEAR = "linear"
    ROLLOUT = "rollout"


PROX_LOGP_METHOD_RECOMPUTE: Final = ProxLogpMethod.RECOMPUTE.value
PROX_LOGP_METHOD_LOGLINEAR: Final = ProxLogpMethod.LOGLINEAR.value
PROX_LOGP_METHOD_METRICS: Final = ProxLogpMethod.METRICS.value
PROX_LOGP_METHOD_REUSE_TRAIN_LOGP: Final = ProxLogpMethod.REUSE_TRAIN_LOGP.value
PROX_LOGP_METHODS_ALL: Final[list[str]] = [method.value for method in ProxLogpMethod]
