from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from areal.api.cli_args import RejectionSamplingConfig
from areal.utils.functional import apply_rejection_sampling, ppo_actor_loss_fn

CU_SEQLENS = torch.tensor([0, 3, 4, 7], dtype=torch.int32)
MASK = torch.tensor([1, 1, 0, 1, 1, 1, 1]).bool()
OLD = torch.tensor([-1.0, -2.0, 0.0, -2.5, -0.5, -3.0, -2.0], dtype=torch.float64)
LOG_RATIO = torch.tensor([0.5, -0.2, 9.0, 2.0, -1.0, 0.3, 0.1], dtype=torch.float64)
SEQUENCES = [[0, 1], [3], [4, 5, 6]]  # kept tokens of each


def binary_kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def measure(token: int, metric: str) -> float:
    """Transcribes the definition for one token; a ratio's is its logarithm."""
    d = float(LOG_RATIO[token])
    if metric == "binary_kl":
        p, q = math.exp(float(OLD[token]) + d), math.exp(float(OLD[token]))
        return max(binary_kl(p, q), binary_kl(q, p))
    return {"kl_k1": d, "kl_k2": d * d / 2, "kl_k3": math.exp(-d) - 1 + d, "ratio": d}[metric]


def metric_of(token: int, config: RejectionSamplingConfig) -> float:
    members = [token]
    if config.level == "sequence":
        members = next(s for s in SEQUENCES if token in s)
    values = [measure(m, config.metric) for m in members]
    merged = {"mean": sum(values) / len(values), "sum": sum(values), "max": max(values)}[config.agg]
    return math.exp(merged) if config.metric == "ratio" else merged


def weight_of(token: int, config: RejectionSamplingConfig) -> float:
    d = [float(LOG_RATIO[token])]
    if config.level == "sequence" and config.metric == "ratio":
        d = [float(LOG_RATIO[m]) for m in next(s for s in SEQUENCES if token in s)]
    return math.exp(sum(d) / len(d))


@pytest.mark.parametrize("lower", [None, 0.9])
@pytest.mark.parametrize("metric", ["ratio", "kl_k1", "kl_k2", "kl_k3", "binary_kl"])
@pytest.mark.parametrize(
    ("level", "agg"),
    [("token", "mean"), ("sequence", "mean"), ("sequence", "sum"), ("sequence", "max")],
)
def test_mask_keeps_what_lies_within(
    level: str, agg: str, metric: str, lower: float | None
) -> None:
    config = RejectionSamplingConfig(level=level, metric=metric, agg=agg, upper=1.3, lower=lower)
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    num_filtered = 0
    for token in range(len(OLD)):
        value = metric_of(token, config) if MASK[token] else 0.0
        kept = bool(MASK[token]) and (lower or -math.inf) <= value <= 1.3
        weight = weight_of(token, config) if kept else 0.0
        assert float(out.metric[token]) == pytest.approx(value, rel=1e-12)
        assert bool(out.loss_mask[token]) == kept
        assert float(out.behave_imp_weight[token]) == pytest.approx(weight, rel=1e-12)
        assert bool(out.is_out_of_bounds[token]) == (bool(MASK[token]) and not kept)
        num_filtered += bool(MASK[token]) and not kept
    assert float(out.filtered_fraction) == pytest.approx(num_filtered / 6)


@pytest.mark.parametrize(
    ("level", "agg"), [("token", "mean"), ("sequence", "mean"), ("sequence", "sum")]
)
def test_clamp_keeps_all_with_limited_weights(level: str, agg: str) -> None:
    config = RejectionSamplingConfig(level=level, action="clamp", agg=agg, upper=1.2, lower=0.7)
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    for token in range(len(OLD)):
        weight = min(max(weight_of(token, config), 0.7), 1.2) if MASK[token] else 0.0
        assert float(out.behave_imp_weight[token]) == pytest.approx(weight, rel=1e-12)
    assert torch.equal(out.loss_mask, MASK)
    assert bool(out.is_out_of_bounds.any())
    assert out.filtered_fraction == 0


@pytest.mark.parametrize(
    ("options", "rejected"),
    [
        # A token that the proximal policy likes more than the one that sampled has k1 = d > 0.
        ({"metric": "kl_k1", "upper": 0.4}, [0, 3]),
        ({"metric": "kl_k1", "upper": 5.0, "lower": -0.15}, [1, 4]),
        # k3 = exp(-d) - 1 + d grows fastest where d < 0.
        ({"metric": "kl_k3", "upper": 0.7}, [3, 4]),
        ({"metric": "kl_k3", "level": "sequence", "upper": 0.2}, [3, 4, 5, 6]),
        ({"level": "sequence", "agg": "sum", "upper": 1.4}, [3]),
        ({"level": "sequence", "agg": "max", "upper": 1.5}, [0, 1, 3]),
    ],
)
def test_which_tokens_are_rejected(options: dict[str, Any], rejected: list[int]) -> None:
    config = RejectionSamplingConfig(**options)
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    assert (MASK & ~out.loss_mask).nonzero().flatten().tolist() == rejected


@pytest.mark.parametrize("metric", ["ratio", "kl_k1", "kl_k2", "kl_k3", "binary_kl"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_gradient_is_that_of_the_definition(level: str, metric: str) -> None:
    config = RejectionSamplingConfig(level=level, metric=metric, upper=1.3, lower=None)
    new = (OLD + LOG_RATIO).clone().requires_grad_()
    advantages = torch.tensor([1.0, -1.0, 3.0, 0.5, -2.0, 1.5, 0.7], dtype=torch.float64)
    loss, _ = ppo_actor_loss_fn(
        new,
        OLD + LOG_RATIO,
        OLD,
        advantages,
        0.2,
        MASK,
        rejection_sampling=config,
        cu_seqlens=CU_SEQLENS,
    )
    (gradient,) = torch.autograd.grad(loss, new)
    # On policy the ratio is 1, and so a token's gradient is its weight and advantage.
    expected = torch.tensor(
        [
            -weight_of(t, config) * float(advantages[t]) / 6
            if MASK[t] and metric_of(t, config) <= 1.3
            else 0.0
            for t in range(len(OLD))
        ],
        dtype=torch.float64,
    )
    assert bool((expected != 0).any())
    torch.testing.assert_close(gradient, expected)


def test_estimates_are_not_clamped() -> None:
    old = torch.tensor([0.0, -30.0, -80.0])
    proximal = torch.tensor([-30.0, 0.0, 0.0])
    mask = torch.ones(3, dtype=torch.bool)
    config = RejectionSamplingConfig(metric="kl_k3", upper=1e12)
    out = apply_rejection_sampling(proximal, old, mask, config)
    assert out.metric.dtype == torch.float32
    torch.testing.assert_close(out.metric, torch.tensor([math.exp(30) - 31, 29.0, 79.0]))
    assert out.loss_mask.tolist() == [False, True, True]
    far = apply_rejection_sampling(
        proximal, old, mask, RejectionSamplingConfig(upper=1e12), None
    ).loss_mask
    assert far.tolist() == [True, False, False], "exp(30) is above 1e12"


@pytest.mark.parametrize("metric", ["ratio", "kl_k1", "kl_k2", "kl_k3", "binary_kl"])
def test_what_is_not_finite_is_no_distance(metric: str) -> None:
    old = torch.tensor([-1.0, -math.inf, math.nan, -math.inf], dtype=torch.bfloat16)
    proximal = torch.tensor([-math.inf, -1.0, -1.0, -math.inf], dtype=torch.bfloat16)
    config = RejectionSamplingConfig(metric=metric, upper=1.1)
    out = apply_rejection_sampling(proximal, old, torch.ones(4), config)
    assert out.metric.dtype == torch.float32
    assert out.metric.tolist() == [1.0 if metric == "ratio" else 0.0] * 4
    assert out.behave_imp_weight.tolist() == [1.0] * 4
    assert out.filtered_fraction == 0


def test_binary_kl_of_tokens_that_are_certain() -> None:
    config = RejectionSamplingConfig(metric="binary_kl", upper=0.01)
    old = torch.tensor([0.0, 0.0, -1e-9, 0.0, -40.0])
    proximal = torch.tensor([0.0, -1e-4, 0.0, -3.0, -1e-4])
    out = apply_rejection_sampling(proximal, old, torch.ones(5), config)
    assert out.loss_mask.tolist() == [True, True, True, False, False]
    assert bool(out.metric.isfinite().all())


@pytest.mark.parametrize("metric", ["ratio", "kl_k1", "binary_kl"])
def test_packed_sequences_need_their_offsets(metric: str) -> None:
    config = RejectionSamplingConfig(level="sequence", metric=metric)
    with pytest.raises(ValueError, match="need cu_seqlens"):
        apply_rejection_sampling(OLD, OLD, MASK, config)


def test_packed_and_padded_agree() -> None:
    config = RejectionSamplingConfig(level="sequence", agg="max", upper=1.3)
    packed = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    places = ([0, 0, 0, 1, 2, 2, 2], [0, 1, 2, 0, 0, 1, 2])

    def pad(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(3, 3, dtype=x.dtype)
        out[places] = x
        return out

    padded = apply_rejection_sampling(pad(OLD + LOG_RATIO), pad(OLD), pad(MASK), config)
    assert torch.equal(padded.behave_imp_weight[places], packed.behave_imp_weight)
    assert torch.equal(padded.loss_mask[places], packed.loss_mask)


def test_without_a_config_nothing_is_filtered() -> None:
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK)
    assert torch.equal(out.loss_mask, MASK)
    torch.testing.assert_close(out.behave_imp_weight, LOG_RATIO.exp() * MASK)
    assert out.filtered_fraction == 0


def test_extreme_ratios_stay_finite() -> None:
    proximal = torch.tensor([0.0, -1e4])
    out = apply_rejection_sampling(proximal, -proximal - 1e4, torch.tensor([True, True]))
    assert bool(torch.isfinite(out.behave_imp_weight).all())
