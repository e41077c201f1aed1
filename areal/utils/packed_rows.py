"""Rows of a packed batch, for kernels that take padded rows.

Short sequences of similar length are padded to one bucket, since a kernel call for each costs more
than computing some padding; long ones are separate, as views of the packed batch. Nothing is padded
to the longest sequence of the batch.

Shape letters: T tokens of a packed batch, P tokens of all rows, L row length, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# A bucket of sequences is padded to its longest; it takes the next shorter one as long as this
# share is real tokens.
MIN_BUCKET_FILL = 0.75

# A sequence whose attention takes more than this many multiply-adds per head size and head, H * D *
# L ** 2, is worth a kernel call of its own. Measured with SDPA on one core, where a call with its
# backward costs about 0.1 ms.
WORK_OF_A_CALL = 500_000


def bucket_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Group sequences of similar length, so that padding a group to its longest wastes little.

    Returns:
        Lists of indices into ``lengths`` that together hold each index once.
    """
    buckets: list[list[int]] = []
    longest = real = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if buckets and (real + length) >= MIN_BUCKET_FILL * longest * (len(buckets[-1]) + 1):
            buckets[-1].append(index)
            real += length
        else:
            buckets.append([index])
            longest = real = length
    return buckets


def longest_shared_length(width: int) -> int:
    """Return the longest sequence that is better padded into a bucket than attended to alone.

    Args:
        width: Heads times head size.
    """
    return int((WORK_OF_A_CALL / width) ** 0.5)


class PackedRows:
    """Cuts a packed batch into rows and joins what is computed of them.

    Rows are right-padded with copies of their last token. Whoever uses them must see to it that no
    real token depends on padding, as causal attention does: the gradients of padding are dropped.

    Args:
        lengths: Tokens of each sequence, in packed order; all positive.
        device: Where the tokens are.
        longest_shared: Longest sequence that may share a bucket with others; any when None.
        places: Where each token of the sequences is among the T packed ones, of which several
            sequences may have some in common; None where they follow one another. What is computed
            of such a token may be that of any sequence that has it.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device | str = "cpu",
        longest_shared: int | None = None,
        places: Tensor | None = None,
    ) -> None:
        self.lengths = list(lengths)
        self._index: Tensor | None = None
        self._is_shared = places is not None
        longest = max(self.lengths)
        if places is None and min(self.lengths) == longest:
            self.shapes = [(len(self.lengths), longest)]
            return
        limit = longest if longest_shared is None else longest_shared
        shared = [i for i, length in enumerate(self.lengths) if length <= limit]
        if not shared and places is None:
            self.shapes = [(1, length) for length in self.lengths]
            return
        groups = [[i] for i, length in enumerate(self.lengths) if length > limit]
        buckets = bucket_by_length([self.lengths[i] for i in shared])
        groups.extend([shared[i] for i in bucket] for bucket in buckets)
        self._lay_out(groups, device, places)

    def _lay_out(
        self, groups: list[list[int]], device: torch.device | str, places: Tensor | None
    ) -> None:
        """Note for each token of the rows where it is packed, and the other way round."""
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        # Number of rows and row length of each group.
        self.shapes = [(len(group), self.lengths[group[0]]) for group in groups]
        indices, real = [], []
        for group, (_, longest) in zip(groups, self.shapes, strict=True):
            first = torch.tensor([starts[i] for i in group])[:, None]
            size = torch.tensor([self.lengths[i] for i in group])[:, None]
            column = torch.arange(longest)[None, :]
            indices.append((first + torch.minimum(column, size - 1)).flatten())
            real.append((column < size).flatten())
        index, is_real = torch.cat(indices), torch.cat(real)
        num_packed = starts[-1]
        if places is not None:
            index = places.to(index.device)[index]
            num_packed = int(places.max()) + 1
        # Of several places of a token the last one counts.
        inverse = torch.zeros(num_packed, dtype=torch.long)
        inverse.scatter_reduce_(0, index[is_real], torch.arange(index.numel())[is_real], "amax")
        is_taken = torch.zeros_like(is_real).index_fill_(0, inverse, True)
        self._index, self._inverse = index.to(device), inverse.to(device)
        self._padding = (~is_taken).nonzero()[:, 0].to(device)

    def split(self, x_HTD: Tensor) -> list[Tensor]:
        """Return packed [H, T, D] as rows [count, H, L, D], one tensor for each of ``shapes``."""
        if self._index is not None:
            x_HTD = _ToRows.apply(x_HTD, self._index, self._inverse, self._is_shared)
        pieces = x_HTD.split([count * length for count, length in self.shapes], dim=1)
        return [
            piece.unflatten(1, shape).transpose(0, 1)
            for piece, shape in zip(pieces, self.shapes, strict=True)
        ]

    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the rows' results [count, H, L, D] as packed [T, H, D]."""
        flat = [x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in outputs]
        joined = flat[0] if len(flat) == 1 else torch.cat(flat)
        if self._index is None:
            return joined
        return _ToPacked.apply(joined, self._index, self._inverse, self._padding)


class _ToRows(torch.autograd.Function):
    """Copies packed [H, T, D] to rows [H, P, D]; backward picks the real tokens' gradients.

    Autograd's own backward of the copy adds up, which takes several times as long, and is needed
    only where sequences share tokens.
    """

    @staticmethod
    def forward(ctx: Any, x_HTD: Tensor, index: Tensor, inverse: Tensor, is_shared: bool) -> Tensor:
        ctx.save_for_backward(index, inverse)
        ctx.is_shared = is_shared
        return x_HTD.index_select(1, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_HPD: Tensor) -> tuple[Tensor | None, ...]:
        index, inverse = ctx.saved_tensors
        if not ctx.is_shared:
            return grad_HPD.index_select(1, inverse), None, None, None
        # Along the first dimension whole rows of memory are added.
        grad_PW = grad_HPD.transpose(0, 1).flatten(1)
        grad_TW = grad_PW.new_zeros(len(inverse), grad_PW.shape[1]).index_add_(0, index, grad_PW)
        grad_HTD = grad_TW.unflatten(1, (len(grad_HPD), -1)).transpose(0, 1)
        return grad_HTD, None, None, None


class _ToPacked(torch.autograd.Function):
    """Copies rows [P, H, D] to packed [T, H, D]; backward gives padding no gradient."""

    @staticmethod
    def forward(ctx: Any, x_PHD: Tensor, index: Tensor, inverse: Tensor, padding: Tensor) -> Tensor:
        ctx.save_for_backward(index, padding)
        return x_PHD.index_select(0, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_THD: Tensor) -> tuple[Tensor, None, None, None]:
        index, padding = ctx.saved_tensors
        return grad_THD.index_select(0, index).index_fill_(0, padding, 0.0), None, None, None
