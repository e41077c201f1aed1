"""Aggregations of per-token losses into one, each with the weight that makes parts add up.

A loss over a batch is a mean over some unit (tokens or sequences). Split into micro-batches, the
engine combines the parts' means by their weights, ``sum_k weight_k * loss_k / sum_k weight_k``,
which is the one-batch loss exactly, and so is the gradient, however the sequences are divided.
"""

from __future__ import annotations

import torch

from areal.utils.functional.ratio import SequenceLayout

# token_mean: all tokens count alike (DAPO, arXiv 2503.14476, equation 8).
# sequence_mean: the mean over a sequence, then over sequences (GRPO, arXiv 2402.03300, equation 3).
# sequence_mean_token_sum: the sum over a sequence, then the mean over sequences, which is the
#   gradient of whole answers (REINFORCE; RLOO, arXiv 2402.14740).
# sequence_mean_token_sum_norm: that, over a constant length (Dr.GRPO, arXiv 2503.20783).
AGGREGATIONS = (
    "sequence_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_sum_norm",
    "token_mean",
)


def aggregate_loss(
    losses: torch.Tensor,
    loss_mask: torch.Tensor,
    aggregation: str = "token_mean",
    layout: SequenceLayout | None = None,
    norm_length: int | None = None,
) -> torch.Tensor:
    """Return the mean loss; 0, still attached to the graph, where the mask keeps nothing.

    A sequence without a kept token (padding, a masked-out answer) counts as no sequence.

    Args:
        losses: Per token, [T] or [N, L].
        loss_mask: True = keep, bool, same shape.
        aggregation: One of ``AGGREGATIONS``.
        layout: Needed by all but "token_mean".
        norm_length: The constant of "sequence_mean_token_sum_norm", in tokens: the longest answer
            that may be sampled, by rights.

    Raises:
        ValueError: The aggregation is unknown or lacks what it needs.
    """
    losses = torch.where(loss_mask, losses, 0.0)
    if aggregation == "token_mean":
        return losses.sum() / loss_mask.sum().clamp(min=1)
    layout = _require_layout(aggregation, layout)
    lengths = layout.sum(loss_mask.to(losses.dtype))
    per_sequence = layout.sum(losses)
    if aggregation == "sequence_mean":
        per_sequence = per_sequence / lengths.clamp(min=1)
    elif aggregation == "sequence_mean_token_sum_norm":
        if norm_length is None or norm_length < 1:
            raise ValueError(f"aggregation {aggregation!r} needs norm_length, found {norm_length}")
        per_sequence = per_sequence / norm_length
    return per_sequence.sum() / (lengths > 0).sum().clamp(min=1)


def aggregation_weight(
    loss_mask: torch.Tensor,
    aggregation: str = "token_mean",
    cu_seqlens: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the float32 0-dim weight of a micro-batch: its kept tokens, or sequences with any.

    Args:
        loss_mask: True = keep, [T] or [N, L].
        aggregation: One of ``AGGREGATIONS``.
        cu_seqlens: Offsets of packed sequences; needed by all but "token_mean" if packed.
    """
    kept = loss_mask.bool()
    if aggregation == "token_mean":
        return kept.sum().float()
    layout = _require_layout(aggregation, SequenceLayout.of(kept, cu_seqlens))
    return (layout.sum(kept.int()) > 0).sum().float()


def _require_layout(aggregation: str, layout: SequenceLayout | None) -> SequenceLayout:
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {aggregation!r}; known: {', '.join(AGGREGATIONS)}")
    if layout is None:
        raise ValueError(f"aggregation {aggregation!r} needs to know the sequences")
    return layout
