"""What one forward call knows of its packed batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from areal.api.errors import ConfigError
from areal.utils.packed_rows import PackedRows, longest_shared_length


class AttentionPlan(Protocol):
    """How the tokens of one forward call attend to each other and to what is cached.

    The embedded engine implements it over its key-value slots (T tokens, H heads, K key-value
    heads, D head size).
    """

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
        ...


@dataclass(frozen=True, eq=False)
class Packing:
    """Describes a packed batch: B sequences laid end to end in T tokens.

    What costs time to derive (lengths, masks, rows) is derived on first use and kept for all
    layers of the call.

    Attributes:
        positions: [T] int64, position of each token inside its sequence. Under Ulysses these are
            the tokens of this rank only, while ``cu_seqlens`` describes the whole row.
        cu_seqlens: [B + 1] int32, where each sequence starts, then T.
        max_seqlen: Tokens of the longest sequence.
        plan: How to attend, where that is not causally inside each sequence.
    """

    positions: Tensor
    cu_seqlens: Tensor
    max_seqlen: int
    plan: AttentionPlan | None = None
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        plan: AttentionPlan | None = None,
    ) -> Packing:
        """Make a packing from the arguments of a model's forward.

        Args:
            positions: [1, T] or [T].
            cu_seqlens: [B + 1], or [1, B + 1] as pipeline stages get it.
            max_seqlen: A number, or a tensor of one element as pipeline stages get it.

        Raises:
            ConfigError: The batch is not packed into one row.
        """
        if positions.dim() == 2 and positions.shape[0] != 1:
            raise ConfigError(
                f"positions of shape {tuple(positions.shape)}: Archon models take one packed row "
                "[1, T] and cu_seqlens, not a padded batch"
            )
        longest = int(max_seqlen.item()) if isinstance(max_seqlen, Tensor) else max_seqlen
        return cls(positions.reshape(-1), cu_seqlens.reshape(-1).to(torch.int32), longest, plan)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence as Python numbers.

        On a GPU the first use waits for the device, so what runs there uses ``cu_seqlens``.
        """
        return tuple(self.cu_seqlens.diff().tolist())

    @cached_property
    def context_lengths(self) -> Tensor:
        """[B] tokens that each sequence has up to its last one here, those cached by a plan too."""
        if self.plan is None:
            return self.cu_seqlens.diff()
        return self.positions[(self.cu_seqlens[1:] - 1).clamp(min=0)] + 1

    def rows(self, width: int) -> PackedRows:
        """Return the rows for backends that attend to padded rows.

        Args:
            width: Heads times head size.

        Raises:
            ConfigError: The sequences do not cover the packed row.
        """
        longest_shared = longest_shared_length(width)
        return self.once(("rows", longest_shared), lambda: self._rows(longest_shared))

    def _rows(self, longest_shared: int) -> PackedRows:
        if sum(self.lengths) != self.positions.shape[0]:
            raise ConfigError(
                f"cu_seqlens describes {sum(self.lengths)} tokens and the row has "
                f"{self.positions.shape[0]}; give padding at the end a sequence of its own"
            )
        lengths = [length for length in self.lengths if length]
        return PackedRows(lengths, self.positions.device, longest_shared)

    @cached_property
    def sequence_ids(self) -> Tensor:
        """[T] number of the sequence that each token belongs to."""
        return self.sequence_ids_from(0)

    def sequence_ids_from(self, first_token: int) -> Tensor:
        """Return ``sequence_ids`` of tokens that start at ``first_token`` of the whole row."""
        stop = first_token + self.positions.shape[0]
        token = torch.arange(first_token, stop, device=self.cu_seqlens.device, dtype=torch.int32)
        return torch.searchsorted(self.cu_seqlens[1:].contiguous(), token, right=True)

    def whole(self, total: int) -> Packing:
        """Return the packing of the whole row of ``total`` tokens; this may be a slice of it."""
        if self.positions.shape[0] == total:
            return self
        return self.once(
            ("whole", total), lambda: whole_row(total, self.cu_seqlens, self.max_seqlen)
        )

    def in_chunks(self, chunk: int) -> Packing:
        """Return the packing in which each sequence is cut into pieces of ``chunk`` tokens.

        The number of pieces is unknown without waiting for the device, so ``cu_seqlens`` has room
        for the most there can be; the surplus are empty sequences at the end.
        """
        if self.max_seqlen <= chunk:
            return self
        return self.once(("chunks", chunk), lambda: self._in_chunks(chunk))

    def _in_chunks(self, chunk: int) -> Packing:
        total = self.positions.shape[0]
        most = self.cu_seqlens.shape[0] - 1 + total // chunk
        # Not the given positions: those of padding at the end may all be 0.
        position = whole_row(total, self.cu_seqlens, self.max_seqlen).positions % chunk
        starts = torch.nonzero_static(position == 0, size=most, fill_value=total)
        cu_seqlens = torch.cat((starts[:, 0], starts.new_full((1,), total))).to(torch.int32)
        return Packing(position, cu_seqlens, chunk)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returned the first time that this packing was asked for ``key``."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


def refuse_tree_attention(tree_attn_meta: Any) -> None:
    """Refuse a forward call that carries a tree of sequences.

    Raises:
        ConfigError: ``tree_attn_meta`` is given; ignoring it would attend across branches.
    """
    if tree_attn_meta is not None:
        raise ConfigError(
            "tree attention is not available in Archon models; pack each branch as a sequence of "
            "its own and leave tree_attn_meta at None"
        )


def whole_row(total: int, cu_seqlens: Tensor, max_seqlen: int | Tensor) -> Packing:
    """Return the packing of ``total`` tokens whose positions count from each sequence's start."""
    token = torch.arange(total, device=cu_seqlens.device)
    row = Packing.of(token, cu_seqlens, max_seqlen)
    return Packing(token - row.cu_seqlens[row.sequence_ids], row.cu_seqlens, row.max_seqlen)
