"""A packed row of tokens that several processes share.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        keep: Indices into ``tokens``, equally many on all processes and at least one.
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
        # Collectives want one shape everywhere, and some of them no empty one.
        self._counts = torch.bincount(keep_N // share, minlength=size).tolist()
        self._most = max(*self._counts, 1)
        own = keep_N.split(self._counts)[rank] - rank * share
        self.keep = F.pad(own, (0, self._most - len(own)))

    def gather(self, rows: Tensor) -> Tensor:
        """Return the logits [N, V] on all processes, from those at each one's ``keep``."""
        if self._group is not None:
            rows = ulysses_gather_output(rows, self._group)
        return torch.cat(
            [part[:count] for part, count in zip(rows.split(self._most), self._counts, strict=True)]
        )
