"""The value loss of a critic."""

from __future__ import annotations

import torch

from areal.utils.functional.aggregation import aggregate_loss

LOSS_TYPES = ("huber", "mse")


def ppo_critic_loss_fn(
    value: torch.Tensor,
    old_value: torch.Tensor,
    target_value: torch.Tensor,
    value_eps_clip: float,
    loss_mask: torch.Tensor | None = None,
    loss_fn_type: str = "mse",
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Compute the clipped value loss, averaged over tokens.

    Args:
        value: Of the critic in training, with gradient, [T] or [N, L].
        old_value: Of the critic before the update.
        target_value: Returns.
        value_eps_clip: How far a value may move from the old one before it gains nothing more.
        loss_mask: True = keep; None keeps all.
        loss_fn_type: "mse" (half the squared error) or "huber" (with delta 10).

    Returns:
        The 0-dim loss and detached per-token ``loss`` and ``clip_mask``.

    Source:
        The value clipping of PPO's reference code (github.com/openai/baselines, ppo2/model.py).
    """
    if loss_fn_type not in LOSS_TYPES:
        raise ValueError(f"unknown loss_fn_type {loss_fn_type!r}; known: {', '.join(LOSS_TYPES)}")
    assert value.dtype == old_value.dtype == target_value.dtype == torch.float32
    mask = torch.ones_like(value).bool() if loss_mask is None else loss_mask.bool()
    old_value, target_value = old_value.detach(), target_value.detach()
    # Not old + clamp(value - old), which rounds: a value in bounds would seem to be held.
    held_value = value.clamp(old_value - value_eps_clip, old_value + value_eps_clip)
    free = _error(value - target_value, loss_fn_type)
    held = _error(held_value - target_value, loss_fn_type)
    losses = torch.where(mask, torch.maximum(free, held), 0.0)
    stats = {"loss": losses.detach(), "clip_mask": (free < held).detach() & mask}
    return aggregate_loss(losses, mask), stats


def _error(difference: torch.Tensor, loss_fn_type: str) -> torch.Tensor:
    if loss_fn_type == "huber":
        zeros = torch.zeros_like(difference)
        return torch.nn.functional.huber_loss(difference, zeros, reduction="none", delta=10.0)
    return 0.5 * difference.square()
