"""Optimisers and learning-rate schedules from configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from areal.api.cli_args import OptimizerConfig
from areal.api.errors import ConfigError
from areal.utils.lr_scheduler import get_num_warmup_steps


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig
) -> torch.optim.Optimizer:
    """Make AdamW or SGD; vectors (norms and biases) are not decayed.

    Raises:
        ConfigError: The type needs an optimiser that this engine does not have.
    """
    trained = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    if config.type == "adam":
        return torch.optim.AdamW(
            groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps, fused=True
        )
    if config.type == "sgd":
        return torch.optim.SGD(groups, lr=config.lr)
    raise ConfigError(
        f"optimizer.type {config.type!r} is not available in this engine; use adam or sgd"
    )


def make_schedule(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, total_steps: int
) -> LambdaLR:
    """Make a warm-up followed by a constant, linear or cosine course down to ``min_lr_ratio``."""
    schedule = LambdaLR(optimizer, lr_factor(config, total_steps))
    # PyTorch warns where the schedule moves first, which a first step with bad gradients makes it.
    optimizer._opt_called = True  # type: ignore[attr-defined]
    return schedule


def move_schedule(schedule: LambdaLR, step: int) -> None:
    """Put a schedule, and the rates of its optimiser, where they are after so many steps."""
    factors = schedule.lr_lambdas
    rates = [base * f(step) for base, f in zip(schedule.base_lrs, factors, strict=True)]
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    schedule.load_state_dict({"last_epoch": step, "_last_lr": rates, "lr_lambdas": [None, None]})


def lr_factor(config: OptimizerConfig, total_steps: int) -> Callable[[int], float]:
    """Return the function from optimiser step (0-based) to the factor on ``config.lr``."""
    warmup = get_num_warmup_steps(config, total_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        if config.lr_scheduler_type == "linear":
            course = 1.0 - progress
        elif config.lr_scheduler_type == "cosine":
            course = 0.5 * (1.0 + math.cos(math.pi * progress))
        else:
            return 1.0
        return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * course

    return factor
