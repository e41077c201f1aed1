"""Key-value slots of the embedded engine, and the attention plans that write and read them.

Rows in use are always 0..n-1, so a decode step reads the cache through a view and copies nothing.
When rows finish, the last rows move into the holes they leave.

Shape letters: R rows, C columns (cached tokens of a row), K key-value heads, D head size, H heads,
T packed tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.engine.model.attention import PackedPlan, attention_with_sinks

# Not a power of two: rows at such distances would compete for the same lines of a processor cache.
FIRST_COLUMNS = 40


class SlotCache:
    """Keys and values of all rows: a tensor [2 * layers, R, K, C, D] that doubles at need.

    Args:
        num_layers: Attention layers of the model.
        device: Where the model is.
    """

    def __init__(self, num_layers: int, device: torch.device) -> None:
        self.num_layers = num_layers
        self.device = device
        self.data: Tensor | None = None

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
            like_KTD: Keys of the model, which tell heads, size and dtype the first time.
        """
        if self.data is None:
            if like_KTD is None:
                return
            rows, columns = num_rows, max(FIRST_COLUMNS, num_columns)
            shape = (2 * self.num_layers, rows, like_KTD.shape[0], columns, like_KTD.shape[2])
            self.data = torch.zeros(shape, dtype=like_KTD.dtype, device=self.device)
            return
        rows, columns = self.num_rows, self.num_columns
        if num_rows <= rows and num_columns <= columns:
            return
        new_rows = rows if num_rows <= rows else max(num_rows, 2 * rows)
        new_columns = columns if num_columns <= columns else max(num_columns, 2 * columns)
        old = self.data
        shape = (old.shape[0], new_rows, old.shape[2], new_columns, old.shape[4])
        self.data = torch.zeros(shape, dtype=old.dtype, device=self.device)
        self.data[:, :rows, :, :columns] = old

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
        self.data = None


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
        self._cache = cache
        self._packed = PackedPlan(lengths, cache.device)
        self._first_row = first_row
        self._num_rows = len(row_prompts)
        self._longest = max(lengths)
        size = torch.tensor(lengths)
        ends = size.cumsum(0)
        prompt = torch.tensor(row_prompts)
        column = torch.arange(self._longest)[None, :]
        index = (ends - size)[prompt, None] + torch.minimum(column, size[prompt, None] - 1)
        self._index = index.flatten().to(cache.device)

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
        last_row = self._first_row + self._num_rows
        self._cache.reserve(last_row, self._longest, k_KTD)
        for store, x_KTD in ((self._cache.keys(layer), k_KTD), (self._cache.values(layer), v_KTD)):
            rows = x_KTD.index_select(1, self._index).view(
                x_KTD.shape[0], self._num_rows, self._longest, -1
            )
            store[self._first_row : last_row, :, : self._longest] = rows.transpose(0, 1)
        return self._packed.attend(layer, q_HTD, k_KTD, v_KTD, scale, window, softcap, sinks)


class DecodePlan:
    """Attends from one new token of each row to all that the row has cached, itself included.

    Args:
        cache: What to read and extend; it has a column for each position.
        positions_R: Position of each row's new token, which is the column it is written to.
        num_columns: One more than the largest position.
    """

    def __init__(self, cache: SlotCache, positions_R: Tensor, num_columns: int) -> None:
        self._cache = cache
        self._num_rows = len(positions_R)
        self._positions_R = positions_R
        self._num_columns = num_columns
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
        num_rows, columns = self._num_rows, self._num_columns
        keys, values = self._cache.keys(layer), self._cache.values(layer)
        if self._slots is None:
            self._slots = self._cache_slots(keys)
        for store, x_KTD in ((keys, k_KTD), (values, v_KTD)):
            x = x_KTD.transpose(0, 1).reshape(-1, x_KTD.shape[2])
            store.view(-1, x_KTD.shape[2]).index_copy_(0, self._slots, x)
        # The heads that share a key head stand where the query length would: no key is repeated in
        # memory.
        q = q_HTD.transpose(0, 1).reshape(num_rows, k_KTD.shape[0], -1, q_HTD.shape[2])
        keys, values = keys[:num_rows, :, :columns], values[:num_rows, :, :columns]
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
