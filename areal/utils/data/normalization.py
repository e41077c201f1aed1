"""Normalisation of rewards and advantages by a NormConfig."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from areal.utils.functional.normalization import (
    masked_group_mean,
    masked_group_std,
    row_group_ids,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from areal.api.cli_args import NormConfig


class Normalization:
    """Subtracts a mean and divides by a deviation, each over the batch, within groups, or not.

    The two levels are independent: the deviation is taken around the mean of its own level, so
    that ``mean_level="group", std_level="batch"`` is the group's baseline over the batch's scale.
    """

    def __init__(self, config: NormConfig) -> None:
        self.config = config

    @torch.no_grad()
    def __call__(
        self,
        x: torch.Tensor,
        loss_mask: torch.Tensor | None = None,
        high_precision: bool = True,
        reduce_group: ProcessGroup | None = None,
        group_sizes: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Return ``(x - mean) / (std + eps)``, 0 where the mask is.

        Args:
            x: Rewards [B] or per-token advantages [B, L].
            loss_mask: Same shape, True = keep; None keeps all.
            high_precision: Compute in float64; the result has the dtype of ``x`` either way.
            reduce_group: Ranks whose values count in batch-level statistics.
            group_sizes: Rows of each group, in order; None for groups of ``config.group_size``.

        Raises:
            ValueError: The groups do not make up the rows of ``x``, or one has none.
        """
        config = self.config
        values = x.double() if high_precision else x.float()
        weights = torch.ones_like(values) if loss_mask is None else loss_mask.to(values.dtype)
        values = torch.where(weights > 0, values, 0.0)
        out = values
        if config.mean_level is not None:
            ids, count, ranks = self._level(config.mean_level, x, group_sizes, reduce_group)
            out = values - masked_group_mean(
                values, weights, ids, count, config.mean_leave1out, ranks
            )
        if config.std_level is not None:
            ids, count, ranks = self._level(config.std_level, x, group_sizes, reduce_group)
            std = masked_group_std(values, weights, ids, count, config.std_unbiased, ranks)
            scale = std + config.eps
            out = torch.where(scale > 0, out / scale, 0.0)  # eps may be 0, and so a deviation
        return (out * weights).to(x.dtype)

    def _level(
        self,
        level: str,
        x: torch.Tensor,
        group_sizes: Sequence[int] | None,
        reduce_group: ProcessGroup | None,
    ) -> tuple[torch.Tensor, int, ProcessGroup | None]:
        """Return the group of each row, the number of groups and the ranks that share them."""
        if level == "batch":
            return torch.zeros(len(x), dtype=torch.int64, device=x.device), 1, reduce_group
        sizes = resolve_group_sizes(len(x), self.config.group_size, group_sizes)
        return row_group_ids(sizes, x.device), len(sizes), None


def resolve_group_sizes(
    num_rows: int, group_size: int, group_sizes: Sequence[int] | None = None
) -> list[int]:
    """Return the rows of each group: those given, or as many of ``group_size`` as fit exactly.

    Raises:
        ValueError: The groups do not make up the rows, or one has none.
    """
    if group_sizes is not None:
        if any(size < 1 for size in group_sizes):
            raise ValueError(f"each group has at least one row, found sizes {list(group_sizes)}")
        if sum(group_sizes) != num_rows:
            raise ValueError(
                f"group sizes sum to {sum(group_sizes)}, the batch has {num_rows} rows"
            )
        return list(group_sizes)
    if num_rows % group_size:
        raise ValueError(
            f"{num_rows} rows do not divide into groups of {group_size}; pass group_sizes"
        )
    return [group_size] * (num_rows // group_size)
