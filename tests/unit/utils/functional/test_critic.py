"""The value loss beside formulas that were written by others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from areal.utils.functional import ppo_critic_loss_fn


def trl_value_loss(
    vpred: Tensor, values: Tensor, returns: Tensor, mask: Tensor, cliprange_value: float
) -> tuple[Tensor, Tensor]:
    """Follows TRL's PPO trainer: value loss and share of clipped tokens."""

    def masked_mean(x: Tensor) -> Tensor:
        return (x * mask).sum() / mask.sum()

    clipped = torch.clamp(vpred, values - cliprange_value, values + cliprange_value)
    losses, clipped_losses = (vpred - returns).square(), (clipped - returns).square()
    loss = 0.5 * masked_mean(torch.max(losses, clipped_losses))
    return loss, masked_mean((clipped_losses > losses).float())


def case(seed: int, *shape: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    value, old, target = torch.randn(3, *shape, generator=generator)
    mask = torch.rand(shape, generator=generator) < 0.6
    return value.requires_grad_(), old, target, mask


@pytest.mark.parametrize("eps_clip", [0.2, 0.5, 1e9])
@pytest.mark.parametrize("shape", [(50,), (4, 13)])
def test_the_loss_and_its_gradient_are_those_of_trl(
    shape: tuple[int, ...], eps_clip: float
) -> None:
    value, old, target, mask = case(len(shape), *shape)
    loss, stats = ppo_critic_loss_fn(value, old, target, eps_clip, mask)
    expected, clip_ratio = trl_value_loss(value, old, target, mask, eps_clip)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    gradients = [torch.autograd.grad(each, value)[0] for each in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)
    assert float(stats["clip_mask"].sum() / mask.sum()) == pytest.approx(float(clip_ratio))
    assert (float(clip_ratio) > 0) == (eps_clip < 1e9)


def test_without_a_mask_every_token_counts() -> None:
    value, old, target, mask = case(3, 20)
    loss, stats = ppo_critic_loss_fn(value, old, target, 0.2)
    expected, _ = trl_value_loss(value, old, target, torch.ones_like(mask), 0.2)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert stats["loss"].mean().item() == pytest.approx(loss.item())


def test_values_of_half_precision_are_a_mistake() -> None:
    value, old, target, mask = case(4, 20)
    with pytest.raises(AssertionError):
        ppo_critic_loss_fn(value.bfloat16(), old, target, 0.2, mask)
