"""The rows of a dataset in memory: light, indexable, with the few methods people use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

Row = dict[str, Any]


class RowDataset(Sequence[Row]):
    """Rows, and optionally a transformation that runs when a row is read.

    It does what training needs of a ``datasets.Dataset`` without importing pandas and Arrow.

    Args:
        rows: Mappings, or another indexable collection of them such as a ``datasets.Dataset``.
        transform: Row to row; runs on every access, so for what is too large to keep.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], transform: Callable[[Row], Row] | None = None
    ) -> None:
        self._rows = rows
        self._transform = transform

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> RowDataset: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    def __getitem__(self, key: int | slice | str) -> Row | RowDataset | list[Any]:
        """Return a row by position, rows by slice, or all values of a column by name."""
        if isinstance(key, str):
            return [row[key] for row in self]
        if isinstance(key, slice):
            return self.select(range(*key.indices(len(self))))
        # A copy, so that a workflow that changes its row does not change the next epoch's.
        row = dict(self._rows[key])
        return row if self._transform is None else self._transform(row)

    @property
    def column_names(self) -> list[str]:
        """The columns of the first row; empty for no rows."""
        return list(self[0]) if len(self) else []

    def select(self, indices: Iterable[int]) -> RowDataset:
        """Return the rows at these positions, in this order."""
        return RowDataset([self._rows[index] for index in indices], self._transform)

    def filter(self, keep: Callable[[Row], bool]) -> RowDataset:
        """Return the rows for which ``keep`` is true."""
        return self.select([index for index, row in enumerate(self) if keep(row)])

    def map(self, change: Callable[[Row], Row]) -> RowDataset:
        """Return the rows changed, at once; columns that the change leaves out are gone."""
        return RowDataset([change(row) for row in self])

    def shuffle(self, seed: int) -> RowDataset:
        """Return the rows in an order that the seed determines."""
        order = list(range(len(self)))
        random.Random(seed).shuffle(order)
        return self.select(order)
