"""Critic, reward shaping, proximal approximations, KL, masked normalisation."""

from __future__ import annotations

import math

import pytest
import torch

from areal.utils.functional import (
    KLEstimator,
    approximate_proximal_logprobs,
    masked_normalization,
    overlong_penalty,
    ppo_critic_loss_fn,
    proximal_alpha,
    reward_overlong_penalty,
)


def test_value_loss_takes_the_worse_of_free_and_held() -> None:
    value = torch.tensor([1.0, 3.0, -2.0, 9.0], requires_grad=True)
    old = torch.tensor([0.8, 1.0, 0.0, 0.0])
    target = torch.tensor([2.0, 3.0, 1.0, 0.0])
    mask = torch.tensor([1, 1, 1, 0])
    loss, stats = ppo_critic_loss_fn(value, old, target, 0.5, mask)
    held = [1.0, 1.5, -0.5]
    expected = [
        max(0.5 * (v - t) ** 2, 0.5 * (h - t) ** 2)
        for v, h, t in zip([1.0, 3.0, -2.0], held, [2.0, 3.0, 1.0], strict=True)
    ]
    assert float(loss.detach()) == pytest.approx(sum(expected) / 3)
    assert stats["clip_mask"].tolist() == [False, True, False, False]
    loss.backward()
    assert value.grad.tolist() == pytest.approx([-1 / 3, 0.0, -1.0, 0.0])
    huber, _ = ppo_critic_loss_fn(value, old, value.detach() + 30.0, 1e9, mask, "huber")
    assert float(huber.detach()) == pytest.approx(10.0 * (30.0 - 5.0))
    with pytest.raises(ValueError, match="known: huber, mse"):
        ppo_critic_loss_fn(value, old, target, 0.5, mask, "l1")


def test_overlong_penalty_falls_along_a_line() -> None:
    lengths = torch.tensor([0, 6, 7, 8, 10, 15])
    out = overlong_penalty(lengths, 4, 0.5, max_response_length=10)
    assert out.tolist() == [0.0, 0.0, -0.125, -0.25, -0.5, -0.5]
    with pytest.raises(ValueError, match="overlong_tokens"):
        overlong_penalty(lengths, 11, 1.0, max_response_length=10)
    data = {"loss_mask": torch.tensor([[0, 1, 1], [0, 0, 1]]), "rewards": torch.tensor([1.0, 1.0])}
    shaped = reward_overlong_penalty(data, 1, 1.0, max_response_length=2)
    assert shaped["rewards"].tolist() == [0.0, 1.0]
    assert data["rewards"].tolist() == [1.0, 1.0]


def test_proximal_policy_lies_between_by_version() -> None:
    alpha = proximal_alpha(torch.tensor([5, 4, 2, 6, -1]), proximal_version=5)
    assert alpha.tolist() == pytest.approx([0.0, 1 / 2, 3 / 4, 0.0, 0.0])
    old, new = torch.tensor([-1.0] * 5), torch.tensor([-3.0] * 5, requires_grad=True)
    loglinear = approximate_proximal_logprobs(new, old, alpha)
    assert loglinear.tolist() == pytest.approx([-1.0, -2.0, -2.5, -1.0, -1.0])
    assert not loglinear.requires_grad
    linear = approximate_proximal_logprobs(new, old, alpha, "linear")
    p, q = math.exp(-1), math.exp(-3)
    expected = [math.log((1 - a) * p + a * q) for a in alpha.tolist()]
    assert linear.tolist() == pytest.approx(expected, rel=1e-6)
    assert torch.equal(approximate_proximal_logprobs(new, old, alpha, "rollout"), old)
    with pytest.raises(ValueError, match="known: linear"):
        approximate_proximal_logprobs(new, old, alpha, "cubic")


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_kl_estimates(name: str) -> None:
    logp, ref = torch.tensor([-1.0, -2.0]).double(), torch.tensor([-1.5, -0.5]).double()
    d = [0.5, -1.5]
    expected = {
        "k1": d,
        "k2": [x * x / 2 for x in d],
        "k3": [math.exp(-x) - 1 + x for x in d],
    }[name]
    assert KLEstimator(name)(logp, ref).tolist() == pytest.approx(expected, rel=1e-12)


def test_unbiased_kl_estimates_converge_to_the_divergence() -> None:
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    divergence = (p * (p / q).log()).sum()
    for name in ("k1", "k3"):  # the expectation is exact: a sum over all three tokens
        torch.testing.assert_close((p * KLEstimator(name)(p.log(), q.log())).sum(), divergence)
    with pytest.raises(ValueError, match="known: k1, k2, k3"):
        KLEstimator("k4")


@pytest.mark.parametrize("unbiased", [True, False])
def test_masked_normalization(unbiased: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, generator=generator)
    mask = torch.rand(4, 6, generator=generator) > 0.3
    x[~mask] = torch.nan
    out = masked_normalization(x, mask, unbiased=unbiased, eps=0.0)
    kept = x[mask].double()
    expected = (kept - kept.mean()) / kept.std(correction=int(unbiased))
    torch.testing.assert_close(out[mask], expected.float())
    assert bool((out[~mask] == 0).all())
    rows = masked_normalization(torch.arange(6.0).view(2, 3), dim=1, eps=0.0)
    torch.testing.assert_close(rows[0], rows[1])
    assert rows.mean(1).abs().max() < 1e-6


def test_masked_normalization_over_one_rank_is_that_of_none(tmp_path: object) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        x = torch.arange(5.0)
        alone = masked_normalization(x)
        shared = masked_normalization(x, reduce_group=torch.distributed.group.WORLD)
        assert torch.equal(alone, shared)
    finally:
        torch.distributed.destroy_process_group()
