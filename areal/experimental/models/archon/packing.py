"""What one forward call knows of its packed batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from areal.api.errors import ConfigError
from areal.utils.packed_rows import PackedRows


class AttentionPlan(Protocol):
    """Says how the tokens of one forward call attend to each other and to what is cached.

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
    ) -> Tensor:
        """Returns the attention output of one layer as [T, H, D]."""
        ...


@dataclass(frozen=True, eq=False)
class Packing:
    """Describes a packed batch: B sequences laid end to end in T tokens.

    What costs time to derive (lengths, masks, rows) is derived on first use and kept for all
    layers of the call.

    Attributes:
        positions: [T] int64, position of each token inside its sequence.
        cu_seqlens: [B + 1] int32, where each sequence starts, then T.
        max_seqlen: Tokens of the longest sequence.
        plan: How to attend, where that is not causally inside each sequence.
    """

    positions: Tensor
    cu_seqlens: Tensor
    max_seqlen: int
    plan: AttentionPlan | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        plan: AttentionPlan | None = None,
    ) -> Packing:
        """Makes a packing from the arguments of a model's forward.

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
    def rows(self) -> PackedRows:
        """Buckets of similar length, for backends that attend to padded rows."""
        return PackedRows([n for n in self.lengths if n], self.positions.device)

    @cached_property
    def sequence_ids(self) -> Tensor:
        """[T] number of the sequence that each token belongs to."""
        token = torch.arange(self.positions.shape[0], device=self.cu_seqlens.device)
        return torch.searchsorted(self.cu_seqlens[1:].long(), token, right=True)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns what ``make`` returned the first time that this packing was asked for ``key``."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]
