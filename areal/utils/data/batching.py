"""Between lists of trajectories (one per prompt, its group of samples inside) and one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from areal.utils.data.containers import TensorDict, concat_padded_tensors


@dataclass
class TrajBatchMeta:
    """How a batch divides into the trajectories that it was made of.

    Attributes:
        n_trajs: How many there are.
        traj_group_sizes: Rows of each; uneven where samples were rejected.
        traj_seqlens: Padded columns of each.
    """

    n_trajs: int
    traj_group_sizes: list[int]
    traj_seqlens: list[int]


def concat_batch(trajs: Sequence[TensorDict]) -> tuple[TensorDict, TrajBatchMeta]:
    """String trajectories [b_i, L_i] together to a batch [B, L] and remember their shapes.

    Raises:
        ValueError: There is none, or keys differ.
    """
    if not trajs:
        raise ValueError("cannot make a batch of no trajectory")
    shapes = [tuple(traj["attention_mask"].shape) for traj in trajs]
    sizes, seqlens = [s[0] for s in shapes], [s[1] for s in shapes]
    return concat_padded_tensors(trajs), TrajBatchMeta(len(trajs), sizes, seqlens)


def split_batch(batch: Any, meta: TrajBatchMeta) -> list[Any]:
    """Cut a batch, or what was computed from it, into one part per trajectory.

    Tensors [B, L, ...] are cut to [b_i, L_i, ...], other tensors and lists with B entries to b_i
    of them; values without rows go to every part. Dicts are cut key by key; None gives Nones.
    """
    return [_cut(batch, meta, i) for i in range(meta.n_trajs)]


def batched_call(
    fn: Callable[..., Any], data: Any, unpack: bool = True, pass_meta: bool = False
) -> Any:
    """Call a function of a batch on a list of trajectories.

    Args:
        fn: Takes a batch dict; with ``pass_meta`` its TrajBatchMeta too, as ``meta=``.
        data: A list of trajectories, or a batch dict, which goes to ``fn`` as it is.
        unpack: Whether the result is cut into one part per trajectory.
        pass_meta: Whether ``fn`` is told how the batch divides (``None`` for a batch dict).
    """
    if isinstance(data, dict):
        return fn(data, meta=None) if pass_meta else fn(data)
    batch, meta = concat_batch(data)
    result = fn(batch, meta=meta) if pass_meta else fn(batch)
    return split_batch(result, meta) if unpack else result


def _cut(value: Any, meta: TrajBatchMeta, i: int) -> Any:
    if isinstance(value, dict):
        return {k: _cut(v, meta, i) for k, v in value.items()}
    num_rows = sum(meta.traj_group_sizes)
    start = sum(meta.traj_group_sizes[:i])
    rows = slice(start, start + meta.traj_group_sizes[i])
    if isinstance(value, list) and len(value) == num_rows:
        return value[rows]
    if not torch.is_tensor(value) or value.ndim == 0 or len(value) != num_rows:
        return value
    if value.ndim >= 2 and value.shape[1] == max(meta.traj_seqlens):
        return value[rows, : meta.traj_seqlens[i]]
    return value[rows]
