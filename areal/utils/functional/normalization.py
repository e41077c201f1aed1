"""Masked means and deviations, over everything or within groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def masked_normalization(
    x: torch.Tensor,
    mask: torch.Tensor | None = None,
    dim: int | tuple[int, ...] | None = None,
    unbiased: bool = False,
    eps: float = 1e-5,
    high_precision: bool = True,
    reduce_group: ProcessGroup | None = None,
) -> torch.Tensor:
    """Shift and scales what the mask keeps to mean 0 and deviation 1; the rest becomes 0.

    Args:
        x: Any shape.
        mask: Same shape, True = keep; None keeps all.
        dim: Dimensions to normalise over; None for all.
        unbiased: Divide the squares by n - 1.
        eps: Added to the deviation.
        high_precision: Compute in float64; the result has the dtype of ``x`` either way.
        reduce_group: Ranks whose values count too; each must have the same other dimensions.
    """
    values = x.double() if high_precision else x.float()
    weights = torch.ones_like(values) if mask is None else mask.to(values.dtype)
    values = torch.where(weights > 0, values, 0.0)
    dims = tuple(range(x.ndim)) if dim is None else dim
    count = _all_sum(weights.sum(dims, keepdim=True), reduce_group)
    mean = _all_sum(values.sum(dims, keepdim=True), reduce_group) / count.clamp(min=1)
    centred = (values - mean) * weights
    squares = _all_sum(centred.square().sum(dims, keepdim=True), reduce_group)
    std = (squares / (count - int(unbiased)).clamp(min=1)).sqrt()
    return (centred / (std + eps)).to(x.dtype)


def row_group_ids(group_sizes: Sequence[int] | torch.Tensor, device: object = None) -> torch.Tensor:
    """Return the group of each row, int64 [B], for groups of contiguous rows [G]."""
    sizes = torch.as_tensor(group_sizes, dtype=torch.int64)
    return torch.arange(len(sizes)).repeat_interleave(sizes).to(device)


def masked_group_mean(
    x: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    num_groups: int,
    leave_one_out: bool = False,
    reduce_group: ProcessGroup | None = None,
) -> torch.Tensor:
    """Return for each element the mean over its group of rows.

    Args:
        x: [B] or [B, L]; a group's elements are all kept ones in its rows.
        weights: Same shape, 1 = keep.
        ids: Group of each row [B].
        num_groups: How many groups there are.
        leave_one_out: Leave the element itself out. An element that is alone has no other to be
            compared with and gets itself, so that subtracting the mean would remove all of it.
        reduce_group: Ranks that share the groups (sensible for one group over everything).

    Returns:
        Means, broadcastable to ``x``; of its shape with ``leave_one_out``.

    Source:
        Leave-one-out: the RLOO estimator of Ahmadian et al., "Back to Basics" (arXiv 2402.14740).
    """
    total = _sum_by_group(x * weights, ids, num_groups, reduce_group)
    count = _sum_by_group(weights, ids, num_groups, reduce_group)
    total, count = (_per_row(v, ids, x.ndim) for v in (total, count))
    if not leave_one_out:
        return total / count.clamp(min=1)
    return torch.where(count > 1, (total - x) / (count - 1).clamp(min=1), x)


def masked_group_std(
    x: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    num_groups: int,
    unbiased: bool = True,
    reduce_group: ProcessGroup | None = None,
) -> torch.Tensor:
    """Return for each element the deviation within its group of rows around the group's mean.

    Shapes and arguments are those of ``masked_group_mean``. A group of one element has deviation 0.
    """
    mean = masked_group_mean(x, weights, ids, num_groups, reduce_group=reduce_group)
    squares = ((x - mean) * weights).square()
    total = _sum_by_group(squares, ids, num_groups, reduce_group)
    count = _sum_by_group(weights, ids, num_groups, reduce_group)
    variance = total / (count - int(unbiased)).clamp(min=1)
    return _per_row(variance.sqrt(), ids, x.ndim)


def _sum_by_group(
    x: torch.Tensor, ids: torch.Tensor, num_groups: int, reduce_group: ProcessGroup | None
) -> torch.Tensor:
    per_row = x if x.ndim == 1 else x.flatten(1).sum(1)
    return _all_sum(per_row.new_zeros(num_groups).index_add(0, ids, per_row), reduce_group)


def _per_row(per_group: torch.Tensor, ids: torch.Tensor, ndim: int) -> torch.Tensor:
    return per_group[ids].view(-1, *[1] * (ndim - 1))


def _all_sum(x: torch.Tensor, reduce_group: ProcessGroup | None) -> torch.Tensor:
    if reduce_group is not None:
        torch.distributed.all_reduce(x, group=reduce_group)
    return x
