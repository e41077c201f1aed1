"""Constants under AReaL's name; they live in ``areal.api.constants``."""

from __future__ import annotations

from areal.api.constants import (
    DEFAULT_WARMUP_STEPS_PROPORTION,
    PROX_LOGP_METHOD_LOGLINEAR,
    PROX_LOGP_METHOD_METRICS,
    PROX_LOGP_METHOD_RECOMPUTE,
    PROX_LOGP_METHOD_REUSE_TRAIN_LOGP,
    PROX_LOGP_METHODS_ALL,
    ProxApproxMethod,
    ProxLogpMethod,
)

__all__ = [
    "DEFAULT_WARMUP_STEPS_PROPORTION",
    "PROX_LOGP_METHODS_ALL",
    "PROX_LOGP_METHOD_LOGLINEAR",
    "PROX_LOGP_METHOD_METRICS",
    "PROX_LOGP_METHOD_RECOMPUTE",
    "PROX_LOGP_METHOD_REUSE_TRAIN_LOGP",
    "ProxApproxMethod",
    "ProxLogpMethod",
]
