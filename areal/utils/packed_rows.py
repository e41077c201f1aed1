"""Rows of a packed batch: sequences of similar length, padded together.

On a CPU one attention call per bucket of similar lengths costs far less than one call per sequence,
and far less than padding the whole batch to its longest sequence.

Shape letters: T tokens of a packed batch, B sequences, L padded length, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# A bucket of sequences is padded to its longest; it takes the next shorter one as long as this
# share is real tokens.
MIN_BUCKET_FILL = 0.75


def bucket_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Groups sequences of similar length, so that padding a group to its longest wastes little.

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


@dataclass(frozen=True)
class Bucket:
    """Holds sequences that are padded to one length.

    Attributes:
        count: Number of sequences.
        length: Tokens of the longest of them.
        index: [count * length] packed position of each token of the rows, None where the packed
            batch already is those rows. Padding points at its own sequence's last token, so it
            stays in bounds and, standing to the right, is seen by no real query.
    """

    count: int
    length: int
    index: Tensor | None

    def rows(self, x_HTD: Tensor) -> Tensor:
        """Returns packed [H, T, D] as [count, H, length, D]."""
        picked = x_HTD if self.index is None else x_HTD.index_select(1, self.index)
        return picked.view(x_HTD.shape[0], self.count, self.length, -1).transpose(0, 1)


class PackedRows:
    """Cuts a packed batch into buckets of rows and joins their results again.

    Args:
        lengths: Tokens of each sequence, in packed order; all positive.
        device: Where the tokens are.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.lengths = list(lengths)
        self.buckets: list[Bucket] = []
        self._inverse: Tensor | None = None
        if len(set(self.lengths)) == 1:
            self.buckets.append(Bucket(len(self.lengths), self.lengths[0], None))
            return
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        inverse = torch.empty(starts[-1], dtype=torch.long)
        offset = 0
        for group in bucket_by_length(self.lengths):
            longest = self.lengths[group[0]]
            first = torch.tensor([starts[i] for i in group])[:, None]
            size = torch.tensor([self.lengths[i] for i in group])[:, None]
            column = torch.arange(longest)[None, :]
            index = first + torch.minimum(column, size - 1)
            flat = torch.arange(offset, offset + index.numel()).view_as(index)
            real = column < size
            inverse[index[real]] = flat[real]
            offset += index.numel()
            self.buckets.append(Bucket(len(group), longest, index.flatten().to(device)))
        self._inverse = inverse.to(device)

    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """Returns the buckets' results [count, H, length, D] as packed [T, H, D]."""
        flat = [x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in outputs]
        joined = flat[0] if len(flat) == 1 else torch.cat(flat)
        return joined if self._inverse is None else joined.index_select(0, self._inverse)
