from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from areal.api.cli_args import RejectionSamplingConfig
from areal.utils.functional import apply_rejection_sampling

CU_SEQLENS = torch.tensor([0, 3, 4, 7], dtype=torch.int32)
MASK = torch.tensor([1, 1, 0, 1, 1, 1, 1]).bool()
OLD = torch.tensor([-1.0, -2.0, 0.0, -1.5, -0.5, -3.0, -2.0], dtype=torch.float64)
LOG_RATIO = torch.tensor([0.5, -0.2, 9.0, 2.0, -1.0, 0.3, 0.1], dtype=torch.float64)
SEQUENCES = [[0, 1], [3], [4, 5, 6]]  # kept tokens of each


def metric_of(token: int, config: RejectionSamplingConfig) -> float:
    """Transcribes the definition for one token."""

    def measure(x: float) -> float:
        estimates = {"kl_k1": -x, "kl_k2": x * x / 2, "kl_k3": math.exp(x) - 1 - x, "ratio": x}
        return estimates[config.metric]

    values = [measure(float(LOG_RATIO[token]))]
    if config.level == "sequence":
        members = next(s for s in SEQUENCES if token in s)
        values = [measure(float(LOG_RATIO[m])) for m in members]
    merged = {"mean": sum(values) / len(values), "sum": sum(values), "max": max(values)}[config.agg]
    return math.exp(merged) if config.metric == "ratio" else merged


@pytest.mark.parametrize("agg", ["mean", "sum", "max"])
@pytest.mark.parametrize("metric", ["ratio", "kl_k1", "kl_k2", "kl_k3"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("lower", [None, 0.9])
def test_mask_keeps_what_lies_within(
    level: str, metric: str, agg: str, lower: float | None
) -> None:
    config = RejectionSamplingConfig(level=level, metric=metric, agg=agg, upper=1.3, lower=lower)
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    for token in range(len(OLD)):
        value = metric_of(token, config) if MASK[token] else 0.0
        kept = bool(MASK[token]) and (lower or -math.inf) <= value <= 1.3
        weight = math.exp(float(LOG_RATIO[token])) if kept else 0.0
        assert float(out.metric[token]) == pytest.approx(value, rel=1e-12)
        assert bool(out.loss_mask[token]) == kept
        assert float(out.behave_imp_weight[token]) == pytest.approx(weight, rel=1e-12)
        assert bool(out.is_out_of_bounds[token]) == (bool(MASK[token]) and not kept)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_clamp_keeps_all_with_limited_weights(level: str) -> None:
    config = RejectionSamplingConfig(level=level, action="clamp", upper=1.2, lower=0.7)
    out = apply_rejection_sampling(OLD + LOG_RATIO, OLD, MASK, config, CU_SEQLENS)
    for token in range(len(OLD)):
        weight = min(max(metric_of(token, config), 0.7), 1.2) if MASK[token] else 0.0
        assert float(out.behave_imp_weight[token]) == pytest.approx(weight, rel=1e-12)
    assert torch.equal(out.loss_mask, MASK)
    assert bool(out.is_out_of_bounds.any())


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


def test_extreme_ratios_stay_finite() -> None:
    proximal = torch.tensor([0.0, -1e4])
    out = apply_rejection_sampling(proximal, -proximal - 1e4, torch.tensor([True, True]))
    assert bool(torch.isfinite(out.behave_imp_weight).all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "odds"}, "rejection_sampling.metric 'odds'"),
        ({"action": "clamp", "metric": "kl_k3"}, "limits a weight"),
    ],
)
def test_refuses(change: dict[str, str], message: str) -> None:
    options = {"level": "token", "action": "mask", "metric": "ratio", "agg": "mean"} | change
    config = SimpleNamespace(**options, upper=1.0, lower=None)
    with pytest.raises(ValueError, match=message):
        apply_rejection_sampling(OLD, OLD, MASK, config)
