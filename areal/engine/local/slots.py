"""Key-value slots of the embedded engine, and the attention plans that write and read them.

Rows in use are always 0..n-1, so a decode step reads the cache through a view and copies nothing.
When rows finish, the last rows move into the holes they leave. Attention over a cache computes as
many columns for each row as its longest row has; so rows of another order of length have another
cache.

Shape letters: R rows, C columns (cached tokens of a row), K key-value heads, D head size, H heads,
T packed tokens.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.engine.model.attention import (
    AttentionPlan,
    PackedPlan,
    attention_with_sinks,
    causal_attention,
    masked_attention,
)

# Columns that a cache has beyond those in use, at least and as a share of them. Few: a processor
# reads memory ahead, and what is between the rows is read for nothing.
LEAST_SPARE = 8
SPARE_SHARE = 0.125
# Memory that a cache keeps at most besides that which it has its rows in.
MAX_SPARE_BYTES = 1 << 28
# The columns of the cache for the shortest rows, and how many times as many each further one has.
# Not a power of two: rows at such distances would compete for the same lines of a processor cache.
FIRST_LIMIT = 160
LIMIT_FACTOR = 4


class SlotCache:
    """Keys and values of rows: a tensor [2 * layers, R, K, C, D] that grows at need.

    Args:
        num_layers: Attention layers of the model.
        device: Where the model is.
        limit: Columns that it has at most; None for any number.
    """

    def __init__(self, num_layers: int, device: torch.device, limit: int | None = None) -> None:
        self.num_layers = num_layers
        self.device = device
        self.limit = limit
        self.data: Tensor | None = None
        # The memory of ``data``, and that which it had before.
        self._flat: Tensor | None = None
        self._spare: Tensor | None = None

    @property
    def num_rows(self) -> int:
        return 0 if self.data is None else self.data.shape[1]

    @property
    def num_columns(self) -> int:
        return 0 if self.data is None else self.data.shape[3]

    def keys(self, layer: int) -> Tensor:
        assert self.data is not None
        return self.data[2 * layer]

    def values(self, layer: int) -> Tensor:
        assert self.data is not None
        return self.data[2 * layer + 1]

    def reserve(self, num_rows: int, num_columns: int, like_KTD: Tensor | None = None) -> None:
        """Grow the cache to at least so many rows and columns; contents stay.

        Args:
            num_rows: In use, and about to be; what others hold may be lost.
            num_columns: The same of columns.
            like_KTD: Keys of the model, which tell heads, size and dtype the first time.
        """
        if self.data is not None:
            like_KTD = self.keys(0)[0] if self.num_rows else like_KTD
        if like_KTD is None:
            return
        rows, columns = self.num_rows, self.num_columns
        if num_rows > rows:
            rows = max(num_rows, 2 * rows)
        if num_columns > columns:
            rows, columns = min(rows, 2 * num_rows), self._spacious(num_columns)
        if (rows, columns) != (self.num_rows, self.num_columns):
            self._lay_out(rows, columns, num_rows, like_KTD)

    def tighten(self, num_rows: int, num_columns: int) -> None:
        """Give columns up where the cache has many more than are in use."""
        columns = self._spacious(num_columns)
        if 2 * self.num_columns > 3 * columns:
            rows = min(self.num_rows, 2 * num_rows)
            self._lay_out(rows, columns, num_rows, self.keys(0)[0])

    def start_over(self) -> None:
        """Forget all rows, and how long they were, and keep the memory."""
        if self.data is not None:
            self.data = self.data[:, :0, :, :0]

    def _spacious(self, num_columns: int) -> int:
        """Return how many columns to have where so many are needed."""
        columns = num_columns + max(LEAST_SPARE, int(num_columns * SPARE_SHARE))
        return max(num_columns, columns if self.limit is None else min(columns, self.limit))

    def _lay_out(self, rows: int, columns: int, num_kept: int, like_KTD: Tensor) -> None:
        """Copy the first rows of what is cached to a tensor of so many rows and columns."""
        shape = (2 * self.num_layers, rows, like_KTD.shape[0], columns, like_KTD.shape[2])
        size = math.prod(shape)
        # Between two pieces of memory in turn: to get it fresh takes longer than to copy.
        if self._spare is None or len(self._spare) < size:
            self._spare = torch.empty(size, dtype=like_KTD.dtype, device=self.device)
        is_small = self._flat is not None and self._flat.nbytes <= MAX_SPARE_BYTES
        self._flat, self._spare = self._spare, self._flat if is_small else None
        data, old = self._flat[:size].view(shape), self.data
        if old is None or not old.numel():
            data.zero_()
        else:
            old = old[:, :num_kept, :, :columns]
            data[:, : old.shape[1], :, : old.shape[3]] = old
            data[:, old.shape[1] :] = 0
            data[:, : old.shape[1], :, old.shape[3] :] = 0
        self.data = data

    def move_rows(self, sources: Sequence[int], targets: Sequence[int], num_columns: int) -> None:
        """Copy the first columns of some rows over others."""
        if not sources or self.data is None:
            return
        source = torch.tensor(sources, device=self.device)
        target = torch.tensor(targets, device=self.device)
        columns = self.data[:, :, :, :num_columns]
        columns[:, target] = columns[:, source]

    def release(self) -> None:
        """Give the memory back."""
        self.data = self._flat = self._spare = None

    def copy_rows(self, sources: Sequence[int], other: SlotCache, first: int, columns: int) -> None:
        """Copy the first columns of some rows of another cache into the rows from ``first`` on."""
        assert other.data is not None
        last = first + len(sources)
        self.reserve(last, columns, other.keys(0)[0])
        assert self.data is not None
        source = torch.tensor(sources, device=self.device)
        self.data[:, first:last, :, :columns] = other.data[:, source, :, :columns]


class PrefillPlan:
    """Attends within packed prompts and caches their keys and values for each row of a prompt.

    Args:
        cache: Where to write.
        lengths: Tokens of each distinct prompt, in packed order.
        row_prompts: For the rows ``first_row, first_row + 1, ...``: the index of the prompt that
            each continues.
        first_row: The first of these rows.
    """

    def __init__(
        self, cache: SlotCache, lengths: Sequence[int], row_prompts: Sequence[int], first_row: int
    ) -> None:
        self._packed = PackedPlan(lengths, cache.device)
        self._lengths = lengths
        self._writes: list[_Write] = []
        self.write(cache, row_prompts, first_row)

    def write(self, cache: SlotCache, row_prompts: Sequence[int], first_row: int) -> None:
        """Also cache prompts for these rows of a cache."""
        if not row_prompts:
            return
        size = torch.tensor(self._lengths)
        ends = size.cumsum(0)
        prompt = torch.tensor(row_prompts)
        longest = int(size[prompt].max())
        column = torch.arange(longest)[None, :]
        index = (ends - size)[prompt, None] + torch.minimum(column, size[prompt, None] - 1)
        self._writes.append(
            _Write(cache, index.flatten().to(cache.device), len(row_prompts), first_row, longest)
        )

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D]."""
        for each in self._writes:
            each.run(layer, k_KTD, v_KTD)
        return self._packed.attend(layer, q_HTD, k_KTD, v_KTD, scale, window, softcap, sinks)


@dataclass
class _Write:
    """Where packed tokens go: the token at each place of ``num_rows`` rows of ``longest``."""

    cache: SlotCache
    index: Tensor
    num_rows: int
    first_row: int
    longest: int

    def run(self, layer: int, k_KTD: Tensor, v_KTD: Tensor) -> None:
        last_row = self.first_row + self.num_rows
        self.cache.reserve(last_row, self.longest, k_KTD)
        for store, x_KTD in ((self.cache.keys(layer), k_KTD), (self.cache.values(layer), v_KTD)):
            rows = x_KTD.index_select(1, self.index).view(
                x_KTD.shape[0], self.num_rows, self.longest, -1
            )
            store[self.first_row : last_row, :, : self.longest] = rows.transpose(0, 1)


class PiecePlan:
    """Attends from a piece of a prompt to it and to what is cached before it, and caches it.

    Args:
        cache: Where its first row is the prompt.
        start: Tokens of the prompt before the piece.
        length: Tokens of the piece.
        total: Tokens of the prompt, for which there will be room.
    """

    def __init__(self, cache: SlotCache, start: int, length: int, total: int) -> None:
        self._cache = cache
        self._start, self._stop, self._total = start, start + length, total
        self._masks: dict[int | None, Tensor] = {}

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D]."""
        self._cache.reserve(1, self._total, k_KTD)
        keys, values = self._cache.keys(layer)[:1], self._cache.values(layer)[:1]
        for store, x_KTD in ((keys, k_KTD), (values, v_KTD)):
            store[0, :, self._start : self._stop] = x_KTD
        seen = q_HTD[None], keys[:, :, : self._stop], values[:, :, : self._stop]
        if self._start:
            mask = self._mask(window, q_HTD)
            out = masked_attention(*seen, mask, scale, softcap, sinks)
        else:
            out = causal_attention(*seen, scale, window, softcap, sinks)
        return out[0].transpose(0, 1)

    def _mask(self, window: int | None, like: Tensor) -> Tensor:
        """Return what is added to scores, [1, 1, T, C]."""
        if window not in self._masks:
            column = torch.arange(self._stop, device=like.device)
            distance = column[self._start :, None] - column
            hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
            mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            self._masks[window] = mask.masked_fill_(hidden, float("-inf"))[None, None]
        return self._masks[window]


class DecodePlan:
    """Attends from one new token of each row to all that the row has cached, itself included.

    All columns of the cache are read, those that no row has yet too: memory that is read from end
    to end arrives ahead of its use, and with gaps between rows attention takes twice as long.

    Args:
        cache: What to read and extend; it has a column for each position.
        positions_R: Position of each row's new token, which is the column it is written to.
    """

    def __init__(self, cache: SlotCache, positions_R: Tensor) -> None:
        self._cache = cache
        self._num_rows = len(positions_R)
        self._positions_R = positions_R
        self._num_columns = cache.num_columns
        # Where the new tokens go, [R * K], of a layer's cache as [all its vectors, D].
        self._slots: Tensor | None = None
        self._masks: dict[int | None, Tensor] = {}
        self._head_masks: dict[int | None, Tensor] = {}  # [R * K, 1, C], made once for all layers

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [R, H, D]."""
        num_rows = self._num_rows
        keys, values = self._cache.keys(layer), self._cache.values(layer)
        if self._slots is None:
            self._slots = self._cache_slots(keys)
        for store, x_KTD in ((keys, k_KTD), (values, v_KTD)):
            x = x_KTD.transpose(0, 1).reshape(-1, x_KTD.shape[2])
            store.view(-1, x_KTD.shape[2]).index_copy_(0, self._slots, x)
        # The heads that share a key head take the place of the query length: no key is repeated in
        # memory.
        q = q_HTD.transpose(0, 1).reshape(num_rows, k_KTD.shape[0], -1, q_HTD.shape[2])
        keys, values = keys[:num_rows], values[:num_rows]
        mask = self._mask(window, q.dtype)
        if softcap is not None or sinks is not None:
            q = q.flatten(1, 2).unsqueeze(2)
            out = attention_with_sinks(q, keys, values, mask[:, None], scale, softcap, sinks)
        elif q.dtype == torch.float32 and q.device.type == "cpu":
            if window not in self._head_masks:
                self._head_masks[window] = mask.expand(-1, q.shape[1], -1, -1).flatten(0, 1)
            out = _attend_by_bmm(q, keys, values, self._head_masks[window], scale)
        else:
            out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale)
        return out.reshape(num_rows, q_HTD.shape[0], q_HTD.shape[2])

    def _cache_slots(self, keys: Tensor) -> Tensor:
        _, heads, columns, _ = keys.shape
        rows = torch.arange(self._num_rows * heads, device=self._cache.device)
        return rows * columns + self._positions_R.repeat_interleave(heads)

    def _mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return what is added to scores, [R, 1, 1, C]: 0 where a key is seen, else -inf."""
        if window not in self._masks:
            distance = self._positions_R[:, None] - torch.arange(
                self._num_columns, device=self._cache.device
            )
            hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
            mask = torch.zeros(hidden.shape, dtype=dtype, device=self._cache.device)
            self._masks[window] = mask.masked_fill_(hidden, float("-inf"))[:, None, None, :]
        return self._masks[window]


def _attend_by_bmm(
    q_RKGD: Tensor, keys_RKCD: Tensor, values_RKCD: Tensor, mask: Tensor, scale: float
) -> Tensor:
    """Return attention as two batched products: for single queries faster than SDPA on a CPU.

    Args:
        mask: What is added to the scores, [R * K, 1, C].
    """
    q, keys, values = (x.flatten(0, 1) for x in (q_RKGD, keys_RKCD, values_RKCD))
    scores = torch.baddbmm(mask, q, keys.transpose(1, 2), alpha=scale)
    return torch.bmm(scores.softmax(-1), values).view_as(q_RKGD)


class JoinedPlan:
    """Attends from some tokens by one plan, from the next ones by another, and so on.

    Args:
        plans: The plans.
        sizes: How many tokens are each one's.
    """

    def __init__(self, plans: Sequence[AttentionPlan], sizes: Sequence[int]) -> None:
        self._plans = plans
        self._sizes = list(sizes)

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D]."""
        parts = zip(*(x.split(self._sizes, 1) for x in (q_HTD, k_KTD, v_KTD)), strict=True)
        return torch.cat(
            [
                plan.attend(layer, *part, scale, window, softcap, sinks)
                for plan, part in zip(self._plans, parts, strict=True)
            ]
        )


class CachedRow(Protocol):
    """What slots ask of a row."""

    @property
    def length(self) -> int:
        """Its tokens, of which the last one is not cached yet."""
        ...


R = TypeVar("R", bound=CachedRow)


@dataclass
class _Group(Generic[R]):
    cache: SlotCache
    rows: list[R] = field(default_factory=list)

    def remove(self, gone: Collection[R]) -> None:
        """Take rows out; the last rows that stay move into the holes."""
        stay = sum(row not in gone for row in self.rows)
        if stay == len(self.rows):
            return
        holes = [i for i in range(stay) if self.rows[i] in gone]
        movers = [i for i in range(stay, len(self.rows)) if self.rows[i] not in gone]
        if movers:
            columns = max(self.rows[i].length for i in movers)
            self.cache.move_rows(movers, holes, min(columns, self.cache.num_columns))
        for hole, mover in zip(holes, movers, strict=True):
            self.rows[hole] = self.rows[mover]
        del self.rows[stay:]
        if not stay:
            self.cache.start_over()
            if self.cache.limit != FIRST_LIMIT:
                self.cache.release()


class SlotGroups(Generic[R]):
    """The slots of rows of any length, in a cache for each order of length.

    Args:
        num_layers: Attention layers of the model.
        device: Where the model is.
    """

    def __init__(self, num_layers: int, device: torch.device) -> None:
        self._num_layers = num_layers
        self._device = device
        self._groups: list[_Group[R]] = []

    def __iter__(self) -> Iterator[R]:
        """Yield the rows in the order of the tokens of a decode step."""
        return (row for group in self._groups for row in group.rows)

    def __len__(self) -> int:
        return sum(len(group.rows) for group in self._groups)

    def bytes_of(self, length: int) -> int:
        """Return the memory of a row of so many tokens; 0 before the first row is cached."""
        data = next((g.cache.data for g in self._groups if g.cache.data is not None), None)
        if data is None:
            return 0
        per_token = data.shape[0] * data.shape[2] * data.shape[4] * data.element_size()
        return per_token * max(length, self._group(length).cache.num_columns)

    def add(self, rows: Iterable[R]) -> None:
        """Give rows a slot, with nothing in it."""
        for row in rows:
            self._group(row.length + 1).rows.append(row)

    def remove(self, rows: Collection[R]) -> None:
        """Take rows out; those that have no slot are passed over."""
        for group in self._groups:
            group.remove(rows)

    def fit(self) -> bool:
        """Move rows that have outgrown their cache to the next one.

        Returns:
            Whether any did, and so whether rows have another order.
        """
        has_moved = False
        for group in list(self._groups):
            sources = [
                i for i, row in enumerate(group.rows) if row.length > (group.cache.limit or 0)
            ]
            if not sources:
                continue
            moved = [group.rows[i] for i in sources]
            longest = max(row.length for row in moved)
            target = self._group(longest)
            target.cache.copy_rows(sources, group.cache, len(target.rows), longest - 1)
            target.rows += moved
            group.remove(set(moved))
            has_moved = True
        return has_moved

    def prefill_plan(self, lengths: Sequence[int], row_prompts: dict[R, int]) -> PrefillPlan:
        """Return a plan that caches packed prompts of new rows, which have their slots.

        Args:
            lengths: Tokens of each distinct prompt, in packed order.
            row_prompts: The index of the prompt that each row continues.
        """
        plan: PrefillPlan | None = None
        for group, first in self._newest(row_prompts):
            prompts = [row_prompts[row] for row in group.rows[first:]]
            if plan is None:
                plan = PrefillPlan(group.cache, lengths, prompts, first)
            else:
                plan.write(group.cache, prompts, first)
        assert plan is not None
        return plan

    def copy_prompt(self, cache: SlotCache, rows: Collection[R]) -> None:
        """Copy the first row of another cache to new rows, which have their slots."""
        for group, first in self._newest(rows):
            copies = len(group.rows) - first
            group.cache.copy_rows([0] * copies, cache, first, group.rows[first].length)

    def decode_plan(self, positions_R: Tensor) -> AttentionPlan:
        """Return a plan for the next token of every row.

        Args:
            positions_R: Position of each row's token, which is the column it is written to.
        """
        plans, sizes = [], []
        used = [group for group in self._groups if group.rows]
        for group, positions in zip(
            used, positions_R.split([len(group.rows) for group in used]), strict=True
        ):
            columns = max(row.length for row in group.rows)
            group.cache.reserve(len(group.rows), columns)
            group.cache.tighten(len(group.rows), columns)
            plans.append(DecodePlan(group.cache, positions))
            sizes.append(len(group.rows))
        return plans[0] if len(plans) == 1 else JoinedPlan(plans, sizes)

    def _newest(self, rows: Collection[R]) -> Iterator[tuple[_Group[R], int]]:
        """Yield the groups that have some of these last rows, and the slot of the first one."""
        for group in self._groups:
            if count := sum(row in rows for row in group.rows):
                yield group, len(group.rows) - count

    def _group(self, columns: int) -> _Group[R]:
        limit = FIRST_LIMIT
        for group in self._groups:
            assert group.cache.limit is not None
            if columns <= group.cache.limit:
                return group
            limit = group.cache.limit * LIMIT_FACTOR
        self._groups.append(_Group(SlotCache(self._num_layers, self._device, limit)))
        return self._group(columns)
