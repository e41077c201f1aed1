"""A packed row of tokens that several processes share.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from areal.experimental.models.archon.ulysses import ulysses_gather_output


class SharedRow:
    """This process's slice of a packed row under context parallelism; without it, the whole row.

    Args:
        tokens_T: Ids.
        positions_T: Of each token in its own sequence.
        lengths: Tokens of each sequence.
        keep_N: Indices of the tokens whose logits are wanted, ascending; None is all.
        multiple_of: What the model wants the number of tokens to be a multiple of.
        group: The processes that share the row; None is this one alone.

    Attributes:
        tokens: [1, T'] of this process.
        positions: The same.
        lengths: Tokens of each sequence of the whole row, with padding as a sequence of its own.
    """

    def __init__(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        keep_N: Tensor | None,
        multiple_of: int = 1,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        size, rank = (1, 0) if group is None else (group.size(), group.rank())
        if keep_N is None:
            keep_N = torch.arange(len(tokens_T), device=tokens_T.device)
        self._group = group
        self.lengths = list(lengths)
        if padding := -len(tokens_T) % multiple_of:
            # No other token sees it.
            tokens_T, positions_T = (F.pad(x, (0, padding)) for x in (tokens_T, positions_T))
            self.lengths.append(padding)
        share = len(tokens_T) // size
        self.tokens, self.positions = (
            x.view(size, share)[rank][None] for x in (tokens_T, positions_T)
        )
        self._counts = torch.bincount(keep_N // share, minlength=size).tolist()
        self._own = keep_N.split(self._counts)[rank] - rank * share

    @property
    def num_kept(self) -> int:
        """How many indices ``kept`` has at least: at least one, as no collective takes nothing."""
        return max(*self._counts, 1)

    def kept(self, count: int) -> Tensor:
        """Return [count] indices into ``tokens``, of which the last ones may be idle.

        Args:
            count: The same on all processes, and not less than ``num_kept``.
        """
        return F.pad(self._own, (0, count - len(self._own)))

    def inputs(self) -> dict[str, Any]:
        """Return what an Archon model takes."""
        ends_B1 = torch.tensor([0, *self.lengths]).cumsum(0, dtype=torch.int32)
        return {
            "tokens": self.tokens,
            "positions": self.positions,
            "cu_seqlens": ends_B1.to(self.tokens.device),
            "max_seqlen": max(self.lengths),
        }

    def gather(self, rows: Tensor) -> Tensor:
        """Return the logits [N, V] on all processes, from those at each one's ``kept``."""
        count = len(rows)
        if self._group is not None:
            rows = ulysses_gather_output(rows, self._group)
        parts = zip(rows.split(count), self._counts, strict=True)
        return torch.cat([part[:kept] for part, kept in parts])
