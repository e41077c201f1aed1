"""Cuts a padded batch into micro-batches within a token budget; puts results back in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from areal.utils.data.containers import TensorDict, tensor_container_to
from areal.utils.data.packing import pack_tensor_dict, pad_packed_tensor_dict
from areal.utils.seqpack import Groups, partition_sizes, split_groups

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from areal.api.cli_args import MicroBatchSpec


@dataclass
class MicroBatchItem:
    """One micro-batch as a train engine takes it.

    Attributes:
        mb: The sequences: padded [b, L] or packed [T], as in the list it comes from.
        padded_mb: The same with a sequence of padding at its end; ``mb`` itself where none is.
        padding_length: Tokens of padding; outputs are cut to the first ``T`` places.
        rows: Which rows of the original batch these are, ascending.
    """

    mb: TensorDict
    padded_mb: TensorDict
    padding_length: int
    rows: list[int]


@dataclass
class MicroBatchList:
    """The micro-batches of one batch and the order its rows were taken in.

    Attributes:
        data: The padded batch that was cut.
        mb_spec: How it was cut.
        mbs: One dict per micro-batch.
        rows: Rows of ``data`` in each micro-batch.
        group_lens: Real tokens in each micro-batch.
        padded_mbs: ``mbs`` after ``pad_mb_list``; None before.
        padding_lengths: Tokens of padding in each; None before ``pad_mb_list``.
    """

    data: TensorDict
    mb_spec: MicroBatchSpec
    mbs: list[TensorDict]
    rows: Groups
    group_lens: list[int]
    padded_mbs: list[TensorDict] | None = None
    padding_lengths: list[int] | None = None

    def __len__(self) -> int:
        return len(self.mbs)

    def __iter__(self) -> Iterator[MicroBatchItem]:
        padded_mbs = self.padded_mbs or self.mbs
        padding_lengths = self.padding_lengths or [0] * len(self.mbs)
        for fields in zip(self.mbs, padded_mbs, padding_lengths, self.rows, strict=True):
            yield MicroBatchItem(*fields)

    @property
    def forward_indices(self) -> list[int]:
        """Rows of the batch in the order of the micro-batches."""
        return [row for rows in self.rows for row in rows]

    @property
    def backward_indices(self) -> list[int]:
        """Places of the batch's rows in ``forward_indices``: its inverse permutation."""
        inverse = [0] * sum(map(len, self.rows))
        for place, row in enumerate(self.forward_indices):
            inverse[row] = place
        return inverse

    def merge_rows(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Put per-row outputs [b, ...] of all micro-batches into the batch's rows [B, ...].

        Raises:
            ValueError: The number of outputs or of rows does not match.
        """
        merged = torch.cat(list(outputs))
        indices = self.backward_indices
        if len(outputs) != len(self) or len(merged) != len(indices):
            raise ValueError(
                f"{len(outputs)} outputs with {len(merged)} rows do not fit "
                f"{len(self)} micro-batches with {len(indices)} rows"
            )
        return merged[torch.tensor(indices, device=merged.device)]

    def merge_tokens(self, outputs: Sequence[torch.Tensor], pad_value: float = 0.0) -> torch.Tensor:
        """Put packed outputs [T, ...] of all micro-batches into the batch's shape [B, L, ...].

        Raises:
            ValueError: The outputs do not have one value per real token.
        """
        mask_BL = self.data["attention_mask"].bool()
        order = torch.tensor(self.forward_indices, device=mask_BL.device)
        num_rows, num_columns = mask_BL.shape
        flat_places = torch.arange(mask_BL.numel(), device=mask_BL.device)
        places = flat_places.view(num_rows, num_columns)[order][mask_BL[order]]
        packed = torch.cat(list(outputs))
        if len(packed) != len(places):
            raise ValueError(f"{len(packed)} outputs do not fit {len(places)} real tokens")
        out = packed.new_full((mask_BL.numel(), *packed.shape[1:]), pad_value)
        return out.index_copy(0, places, packed).unflatten(0, (num_rows, num_columns))

    def to(self, *args: Any, **kwargs: Any) -> MicroBatchList:
        """Return a copy with all tensors moved as ``Tensor.to`` does."""
        moved = {
            name: tensor_container_to(getattr(self, name), *args, **kwargs)
            for name in ("data", "mbs", "padded_mbs")
        }
        return replace(self, **moved)


def split_padded_tensor_dict_into_mb_list(
    data: TensorDict, mb_spec: MicroBatchSpec, group: ProcessGroup | None = None
) -> MicroBatchList:
    """Cut a padded batch into micro-batches of whole sequences, padded as before.

    Runs of ``mb_spec.granularity`` adjacent rows stay together. There are at least ``n_mbs``
    micro-batches (or as many as such runs), a multiple of ``n_mbs_divisor``, and each holds at
    most ``max_tokens_per_mb`` real tokens unless one run alone is longer. Columns that are padding
    in all of its rows are cut off a micro-batch.

    Args:
        data: [B, L] batch with ``attention_mask``.
        mb_spec: Budget, counts and algorithm.
        group: Ranks that must end up with the same number of micro-batches.

    Raises:
        ValueError: B is no multiple of the granularity, or too small for the divisor.
    """
    mask_BL = data["attention_mask"].bool()
    columns = torch.arange(1, mask_BL.shape[1] + 1, device=mask_BL.device)
    lens_and_ends = torch.stack([mask_BL.sum(1), (mask_BL * columns).amax(1)])
    seqlens, ends = lens_and_ends.tolist()
    rows = _rows_per_mb(seqlens, mb_spec, group)
    mbs = [_take_rows(data, mask_BL, r, max(ends[i] for i in r)) for r in rows]
    group_lens = [sum(seqlens[i] for i in r) for r in rows]
    return MicroBatchList(data, mb_spec, mbs, rows, group_lens)


def pack_mb_list(mb_list: MicroBatchList) -> MicroBatchList:
    """Return the list with every micro-batch packed (see ``pack_tensor_dict``)."""
    return replace(mb_list, mbs=[pack_tensor_dict(mb) for mb in mb_list.mbs])


def pad_mb_list(
    mb_list: MicroBatchList,
    pad_value: float = 0.0,
    pad_to_maximum: bool = False,
    multiple_of: int = 1,
) -> MicroBatchList:
    """Return the list with ``padded_mbs``: packed micro-batches filled up to round lengths.

    Round lengths keep an allocator from fragmenting, and make sequence-parallel shards equal.

    Args:
        mb_list: A packed list.
        pad_value: What fills per-token tensors; ``loss_mask`` gets 0.
        pad_to_maximum: Fill up to ``max_tokens_per_mb`` where that is set.
        multiple_of: The padded length is a multiple of it.
    """
    padded_mbs, padding_lengths = [], []
    budget = (mb_list.mb_spec.max_tokens_per_mb or 0) if pad_to_maximum else 0
    for mb, length in zip(mb_list.mbs, mb_list.group_lens, strict=True):
        total = -(-max(length, budget) // multiple_of) * multiple_of
        padded_mbs.append(pad_packed_tensor_dict(mb, total, pad_value))
        padding_lengths.append(total - length)
    return replace(mb_list, padded_mbs=padded_mbs, padding_lengths=padding_lengths)


def _rows_per_mb(seqlens: list[int], mb_spec: MicroBatchSpec, group: ProcessGroup | None) -> Groups:
    unit = mb_spec.granularity
    if len(seqlens) % unit:
        raise ValueError(f"{len(seqlens)} rows are not a multiple of mb_spec.granularity={unit}")
    sizes = [sum(seqlens[i : i + unit]) for i in range(0, len(seqlens), unit)]
    groups = partition_sizes(
        sizes,
        capacity=mb_spec.max_tokens_per_mb,
        min_groups=mb_spec.n_mbs or 1,
        divisor=mb_spec.n_mbs_divisor,
        algorithm=mb_spec.packing_algorithm,
    )
    if group is not None:
        groups = split_groups(groups, sizes, _largest_count(len(groups), group))
    return [[u * unit + k for u in g for k in range(unit)] for g in groups]


def _largest_count(count: int, group: ProcessGroup) -> int:
    device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
    counts = torch.tensor([count], device=device)
    torch.distributed.all_reduce(counts, torch.distributed.ReduceOp.MAX, group=group)
    return int(counts)


def take_rows(data: TensorDict, rows: list[int]) -> TensorDict:
    """Return some rows of a padded batch, of everything in it that has rows."""
    mask_BL = data["attention_mask"]
    return _take_rows(data, mask_BL, rows, mask_BL.shape[1])


def _take_rows(
    data: TensorDict, mask_BL: torch.Tensor, rows: list[int], num_columns: int
) -> TensorDict:
    """Select rows of everything that has rows, and cuts per-token tensors to ``num_columns``."""
    num_rows = len(mask_BL)
    is_all = len(rows) == num_rows
    index = None if is_all else torch.tensor(rows, dtype=torch.long, device=mask_BL.device)
    taken: TensorDict = {}
    for key, value in data.items():
        if torch.is_tensor(value) and value.ndim and len(value) == num_rows:
            if value.shape[:2] == mask_BL.shape:
                value = value[:, :num_columns]
            if index is not None:
                value = value.index_select(0, index)
        elif isinstance(value, list) and len(value) == num_rows and not is_all:
            value = [value[i] for i in rows]
        taken[key] = value
    return taken
