"""Correction for the distance between the policy that acted and the one that is updated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from areal.utils.functional.kl import KLEstimator
from areal.utils.functional.ratio import SequenceLayout, safe_exp

if TYPE_CHECKING:
    from areal.api.cli_args import RejectionSamplingConfig


@dataclass(frozen=True)
class RejectionSamplingResult:
    """What the filter makes of a batch; all tensors are detached and per token but for the last.

    Attributes:
        loss_mask: Bool, the given mask without what was rejected.
        behave_imp_weight: Weight of each token's loss, 0 outside ``loss_mask``.
        metric: What was held against the bounds, 0 where the given mask is 0.
        is_out_of_bounds: Bool, kept tokens whose metric lay outside: rejected or clamped.
        filtered_fraction: Share of the given mask's tokens that was rejected, 0-dim.
    """

    loss_mask: torch.Tensor
    behave_imp_weight: torch.Tensor
    metric: torch.Tensor
    is_out_of_bounds: torch.Tensor
    filtered_fraction: torch.Tensor


@torch.no_grad()
def apply_rejection_sampling(
    proximal_logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    loss_mask: torch.Tensor,
    config: RejectionSamplingConfig | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> RejectionSamplingResult:
    """Weigh tokens by the ratio of proximal to behaviour policy, and filter by a metric of it.

    With ``d`` the log of that ratio, a token's weight is ``exp(d)``. ``action="mask"`` drops what
    lies outside ``[lower, upper]``; ``action="clamp"`` keeps it and holds the weight within the
    bounds. Without a config nothing is filtered.

    The metric is ``exp(d)`` for "ratio"; for "kl_*" the estimate of KL(proximal || behaviour) that
    ``KLEstimator`` has, unclamped; for "binary_kl" the divergence of the token against all others,
    in the direction in which it is larger. At the sequence level it is one number for all tokens of
    a sequence, made of theirs by ``agg``: for "ratio" of ``d``, and their weight is ``exp(mean of
    d)`` whatever ``agg`` is, for the others of the metrics themselves.

    Args:
        proximal_logprobs: Log-probabilities under the policy before the update, [T] or [N, L].
        old_logprobs: Log-probabilities under the policy that sampled.
        loss_mask: True = keep.
        config: Level, action, metric, agg and bounds.
        cu_seqlens: Offsets of packed sequences; needed at the sequence level if packed.

    Raises:
        ValueError: The sequence level meets packed tokens without ``cu_seqlens``.

    Source:
        Weights: decoupled PPO (arXiv 2110.00641; arXiv 2505.24298, equation 5). Clamped ones:
        Ionides, "Truncated importance sampling" (2008).
    """
    mask = loss_mask.bool()
    proximal, behave = _at_least_float32(proximal_logprobs), _at_least_float32(old_logprobs)
    log_ratio = proximal - behave
    # A log-probability that is not finite gives no distance.
    is_known = mask & log_ratio.isfinite()
    log_ratio = torch.where(is_known, log_ratio, 0.0)
    if config is None:
        weight = safe_exp(log_ratio) * mask
        return _result(mask, mask, weight, weight, torch.zeros_like(mask))
    layout = SequenceLayout.of(log_ratio, cu_seqlens) if config.level == "sequence" else None
    if config.metric == "ratio":
        metric = _aggregated(log_ratio, mask, config.agg, layout).exp()
        weight = safe_exp(_aggregated(log_ratio, mask, "mean", layout))
    else:
        if config.metric == "binary_kl":
            per_token = torch.where(is_known, _binary_kl(proximal, behave), 0.0)
        else:
            name = config.metric.removeprefix("kl_")
            per_token = KLEstimator(name, apply_clamp=False)(log_ratio, 0.0)
        metric = _aggregated(per_token, mask, config.agg, layout)
        weight = safe_exp(log_ratio)
    lower = -torch.inf if config.lower is None else config.lower
    is_out = ((metric < lower) | (metric > config.upper)) & mask
    if config.action == "clamp":
        return _result(mask, mask, weight.clamp(lower, config.upper), metric, is_out)
    return _result(mask, mask & ~is_out, weight, metric, is_out)


def _result(
    given: torch.Tensor,
    kept: torch.Tensor,
    weight: torch.Tensor,
    metric: torch.Tensor,
    is_out: torch.Tensor,
) -> RejectionSamplingResult:
    filtered = 1.0 - kept.sum() / given.sum().clamp(min=1)
    return RejectionSamplingResult(
        loss_mask=kept,
        behave_imp_weight=torch.where(kept, weight, 0.0),
        metric=torch.where(given, metric, 0.0),
        is_out_of_bounds=is_out,
        filtered_fraction=torch.where(given.any(), filtered, 0.0),
    )


def _at_least_float32(logprobs: torch.Tensor) -> torch.Tensor:
    return logprobs.detach().to(torch.promote_types(logprobs.dtype, torch.float32))


def _aggregated(
    values: torch.Tensor, mask: torch.Tensor, agg: str, layout: SequenceLayout | None
) -> torch.Tensor:
    """Return each sequence's value for all of its tokens; without a layout, the tokens' own."""
    if layout is None:
        return values
    if agg == "max":
        lowest = torch.finfo(values.dtype).min
        per_sequence = layout.amax(torch.where(mask, values, lowest), empty=lowest)
    else:
        per_sequence = layout.sum(torch.where(mask, values, 0.0))
        if agg == "mean":
            per_sequence = per_sequence / layout.sum(mask.to(values.dtype)).clamp(min=1)
    return torch.where(mask, layout.spread(per_sequence), 0.0)


def _binary_kl(logprobs: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """Return the larger of KL(p || q) and KL(q || p) of "this token" against "any other"."""
    # Below this a float32 probability is 1, so how close it really was to it is unknown.
    resolution = torch.finfo(torch.float32).eps
    p, q = logprobs.exp(), base.exp()
    other_p, other_q = ((-x.expm1()).clamp(min=resolution) for x in (logprobs, base))
    log_ratio, log_other = logprobs - base, other_p.log() - other_q.log()
    # A probability of 0 takes part in no sum, although its logarithm is infinite.
    forward = torch.where(p > 0, p * log_ratio, 0.0) + other_p * log_other
    backward = torch.where(q > 0, -q * log_ratio, 0.0) - other_q * log_other
    return torch.maximum(forward, backward)
