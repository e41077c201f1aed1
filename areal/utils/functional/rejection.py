"""Correction for the distance between the policy that acted and the one that is updated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from areal.utils.functional.kl import KL_ESTIMATORS, KLEstimator
from areal.utils.functional.ratio import SequenceLayout, masked_log_ratio, safe_exp

if TYPE_CHECKING:
    from areal.api.cli_args import RejectionSamplingConfig

METRICS = (*(f"kl_{name}" for name in KL_ESTIMATORS), "ratio")
AGGS = ("max", "mean", "sum")


@dataclass(frozen=True)
class RejectionSamplingResult:
    """What the filter makes of a batch; all tensors are detached and have its shape.

    Attributes:
        loss_mask: Bool, the given mask without what was rejected.
        behave_imp_weight: Weight of each token's loss, 0 outside ``loss_mask``.
        metric: What was held against the bounds, 0 where the given mask is 0.
        is_out_of_bounds: Bool, kept tokens whose metric lay outside: rejected or clamped.
    """

    loss_mask: torch.Tensor
    behave_imp_weight: torch.Tensor
    metric: torch.Tensor
    is_out_of_bounds: torch.Tensor


@torch.no_grad()
def apply_rejection_sampling(
    proximal_logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    loss_mask: torch.Tensor,
    config: RejectionSamplingConfig | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> RejectionSamplingResult:
    """Weigh tokens by the ratio of proximal to behaviour policy, and filters by a metric of it.

    The weight of a token is its ratio. ``action="mask"`` drops what lies outside
    ``[lower, upper]``; ``action="clamp"`` keeps it and holds the weight within the bounds. At the
    sequence level the metric is one number for all tokens of a sequence, made of theirs by ``agg``:
    for "ratio" from log-ratios (their sum is the ratio of the sequences, their mean its geometric
    mean per token), for "kl_*" from the estimates of KL(behaviour || proximal). The clamped weight
    of a sequence's tokens is its clamped ratio. Without a config nothing is filtered.

    Args:
        proximal_logprobs: Log-probabilities under the policy before the update, [T] or [N, L].
        old_logprobs: Log-probabilities under the policy that sampled.
        loss_mask: True = keep.
        config: Level, action, metric, agg and bounds.
        cu_seqlens: Offsets of packed sequences; needed at the sequence level if packed.

    Raises:
        ValueError: An option is unknown, or "clamp" meets a metric that is no weight.

    Source:
        Weights: decoupled PPO (arXiv 2110.00641; arXiv 2505.24298, equation 5). Clamped ones:
        Ionides, "Truncated importance sampling" (2008).
    """
    mask = loss_mask.bool()
    log_ratio = masked_log_ratio(proximal_logprobs.detach(), old_logprobs.detach(), mask)
    weight = safe_exp(log_ratio) * mask
    if config is None:
        return RejectionSamplingResult(mask, weight, weight, torch.zeros_like(mask))
    _check_config(config)
    metric = _metric(log_ratio, mask, config, cu_seqlens)
    lower = -torch.inf if config.lower is None else config.lower
    is_out = ((metric < lower) | (metric > config.upper)) & mask
    if config.action == "clamp":
        weight = metric.clamp(lower, config.upper)
    else:
        mask = mask & ~is_out
    return RejectionSamplingResult(mask, weight * mask, metric * loss_mask.bool(), is_out)


def _metric(
    log_ratio: torch.Tensor,
    mask: torch.Tensor,
    config: RejectionSamplingConfig,
    cu_seqlens: torch.Tensor | None,
) -> torch.Tensor:
    """Return the metric of each token; within a sequence it is the same at the sequence level."""
    is_ratio = config.metric == "ratio"
    if is_ratio:
        per_token = log_ratio
    else:
        # The tokens were sampled from the behaviour policy, so that is the estimate's first one.
        per_token = KLEstimator(config.metric.removeprefix("kl_"))(-log_ratio, 0.0)
    if config.level == "sequence":
        per_token = _spread_over_sequence(per_token, mask, config.agg, cu_seqlens)
    return safe_exp(per_token) if is_ratio else per_token


def _spread_over_sequence(
    values: torch.Tensor, mask: torch.Tensor, agg: str, cu_seqlens: torch.Tensor | None
) -> torch.Tensor:
    layout = SequenceLayout.of(values, cu_seqlens)
    if agg == "max":
        lowest = torch.finfo(values.dtype).min
        per_sequence = layout.amax(torch.where(mask, values, lowest), empty=lowest)
    else:
        per_sequence = layout.sum(torch.where(mask, values, 0.0))
        if agg == "mean":
            per_sequence = per_sequence / layout.sum(mask.to(values.dtype)).clamp(min=1)
    return torch.where(mask, layout.spread(per_sequence), 0.0)


def _check_config(config: RejectionSamplingConfig) -> None:
    options = {
        "level": ("token", "sequence"),
        "action": ("mask", "clamp"),
        "metric": METRICS,
        "agg": AGGS,
    }
    for name, known in options.items():
        if getattr(config, name) not in known:
            raise ValueError(
                f"unknown rejection_sampling.{name} {getattr(config, name)!r}; "
                f"known: {', '.join(known)}"
            )
    if config.action == "clamp" and config.metric != "ratio":
        raise ValueError(
            f"rejection_sampling.action 'clamp' limits a weight, and metric {config.metric!r} is "
            "none; use metric 'ratio' or action 'mask'"
        )
