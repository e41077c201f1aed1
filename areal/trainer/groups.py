"""Groups of a batch: the samples of one prompt, in contiguous rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from areal.utils.data import TensorDict, resolve_group_sizes
from areal.utils.functional import row_group_ids


def groups_with_variance(rewards: torch.Tensor, group_sizes: Sequence[int]) -> torch.Tensor:
    """Return for each group of contiguous rows whether its rewards [B] differ: bool [G]."""
    ids = row_group_ids(group_sizes, rewards.device)
    empty = rewards.new_zeros(len(group_sizes))
    lowest = empty.scatter_reduce(0, ids, rewards, "amin", include_self=False)
    highest = empty.scatter_reduce(0, ids, rewards, "amax", include_self=False)
    return highest > lowest


def drop_zero_variance_groups(
    batch: TensorDict, group_sizes: Sequence[int] | None = None, group_size: int = 1
) -> tuple[TensorDict, list[int]]:
    """Leave out the groups of a batch whose samples all have one reward.

    Where ``filters.has_reward_variance`` has such groups replaced while a batch is collected, this
    makes a collected batch smaller. A group of one sample goes too: nothing is left to compare.

    Args:
        batch: With ``rewards`` [B]; tensors and lists of B entries are filtered.
        group_sizes: Rows of each group, in order; None for groups of ``group_size``.
        group_size: Rows of every group.

    Returns:
        The batch that is left, which may have no rows, and the sizes of its groups.

    Raises:
        ValueError: The groups do not make up the batch.
    """
    rewards = batch["rewards"]
    sizes = resolve_group_sizes(len(rewards), group_size, group_sizes)
    is_kept = groups_with_variance(rewards, sizes)
    rows = is_kept[row_group_ids(sizes, rewards.device)].nonzero().squeeze(1)
    kept_sizes = [size for size, kept in zip(sizes, is_kept.tolist(), strict=True) if kept]
    indices = rows.tolist()
    return {k: _take(v, rows, indices, len(rewards)) for k, v in batch.items()}, kept_sizes


def _take(value: Any, rows: torch.Tensor, indices: list[int], num_rows: int) -> Any:
    if torch.is_tensor(value) and value.ndim and len(value) == num_rows:
        return value[rows]
    if isinstance(value, list) and len(value) == num_rows:
        return [value[i] for i in indices]
    return value
