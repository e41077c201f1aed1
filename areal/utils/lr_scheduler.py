"""Lengths of learning-rate schedules."""

from __future__ import annotations

import warnings

from areal.api.config.optimizer import OptimizerConfig
from areal.api.constants import DEFAULT_WARMUP_STEPS_PROPORTION


def get_num_warmup_steps(optimizer_config: OptimizerConfig, total_train_steps: int) -> int:
    """Return over how many steps the learning rate rises.

    Args:
        optimizer_config: Its ``warmup_steps`` counts if set, with a warning where a proportion is
            set too, else ``warmup_steps_proportion`` of the run, rounded down.
        total_train_steps: Steps of the whole run.

    Raises:
        ValueError: One of the three is negative.
    """
    if total_train_steps < 0:
        raise ValueError(f"total_train_steps must not be negative, found {total_train_steps}")
    steps = optimizer_config.warmup_steps
    proportion = optimizer_config.warmup_steps_proportion
    if proportion < 0:
        raise ValueError(f"warmup_steps_proportion must not be negative, found {proportion}")
    if steps is None:
        return int(proportion * total_train_steps)
    if steps < 0:
        raise ValueError(f"warmup_steps must not be negative, found {steps}")
    if proportion != DEFAULT_WARMUP_STEPS_PROPORTION:
        warnings.warn(
            f"warmup_steps={steps} counts, and warmup_steps_proportion={proportion} does not; "
            "set one of the two",
            stacklevel=2,
        )
    return steps
