from __future__ import annotations

import pytest
import torch

from areal.utils.functional import generalized_advantages, turn_advantages


def case(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three sequences: tool output in the middle, steps up to the end, and no step at all."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[0, 1, 1, 0, 0, 1, 1, 0], [1, 0, 1, 1, 0, 1, 0, 1], [0] * 8]).bool()
    turns = torch.tensor([[-1, 0, 0, -1, -1, 1, 1, -1], [0, -1, 1, 1, -1, 2, -1, 2], [-1] * 8])
    rewards = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    values = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    return rewards, values, mask, turns


def gae(rewards: list[float], values: list[float], discount: float, lam: float) -> list[float]:
    """Schulman et al., equation 16: sums of discounted residuals."""
    nexts = [*values, 0.0][1:]
    deltas = [r + discount * n - v for r, v, n in zip(rewards, values, nexts, strict=True)]
    return [
        sum((discount * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas)))
        for t in range(len(deltas))
    ]


@pytest.mark.parametrize("with_values", [True, False])
@pytest.mark.parametrize(("discount", "lam"), [(1.0, 1.0), (0.9, 1.0), (1.0, 0.8), (0.95, 0.0)])
def test_token_steps_equal_the_sum_of_residuals(
    discount: float, lam: float, with_values: bool
) -> None:
    rewards, values, mask, _ = case(0)
    expected = torch.zeros_like(rewards)
    for i in range(3):
        steps = mask[i].nonzero().flatten()
        row_values = values[i][steps] if with_values else torch.zeros(len(steps))
        row = gae(rewards[i][steps].tolist(), row_values.tolist(), discount, lam)
        expected[i, steps] = torch.tensor(row, dtype=torch.float64)
    ours = generalized_advantages(rewards, values if with_values else None, mask, discount, lam)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("with_values", [True, False])
@pytest.mark.parametrize(("discount", "lam"), [(1.0, 1.0), (0.9, 0.7)])
def test_turn_steps_share_one_advantage(discount: float, lam: float, with_values: bool) -> None:
    rewards, values, mask, turns = case(1)
    expected = torch.zeros_like(rewards)
    for i in range(2):
        ids = sorted(set(turns[i][mask[i]].tolist()))
        places = [((turns[i] == u) & mask[i]).nonzero().flatten() for u in ids]
        turn_rewards = [float(rewards[i][p].sum()) for p in places]
        turn_values = [float(values[i][p[0]]) if with_values else 0.0 for p in places]
        for p, a in zip(places, gae(turn_rewards, turn_values, discount, lam), strict=True):
            expected[i, p] = a
    given = values if with_values else None
    ours = turn_advantages(rewards, given, mask, turns, discount, lam)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_lambda_may_differ_between_sequences() -> None:
    rewards, values, mask, _ = case(2)
    lams = torch.tensor([0.2, 0.9, 0.5], dtype=torch.float64)
    ours = generalized_advantages(rewards, values, mask, 0.97, lams)
    for i, lam in enumerate(lams.tolist()):
        alone = generalized_advantages(
            rewards[i : i + 1], values[i : i + 1], mask[i : i + 1], 0.97, lam
        )
        torch.testing.assert_close(ours[i : i + 1], alone)


def test_a_sampled_token_must_have_a_turn() -> None:
    rewards, _, mask, turns = case(3)
    with pytest.raises(ValueError, match="must not be negative"):
        turn_advantages(rewards, None, mask, torch.full_like(turns, -1))
