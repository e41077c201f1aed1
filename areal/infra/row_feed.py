"""Dataset rows, one by one, from a dataloader that is read round and round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from areal.api.errors import DatasetError

Row = dict[str, Any]


class RowFeed:
    """Takes rows from a dataloader only as they are needed.

    What it has taken and not handed out is in ``buffer``, so that at any moment the dataloader's
    position minus the buffer is exactly what has been handed out.

    Args:
        dataloader: Yields lists of rows; it is started again when it ends.
        first_rows: Come before all others.
    """

    def __init__(self, dataloader: Iterable[list[Row]], first_rows: Iterable[Row] = ()) -> None:
        self._dataloader = dataloader
        self._iterator: Iterator[Any] | None = None
        self.buffer: deque[Row] = deque(first_rows)
        self._batch_size: int | None = getattr(dataloader, "batch_size", None)

    @property
    def batch_size(self) -> int:
        """How many rows make a batch: the dataloader's batch_size, else that of its first."""
        if self._batch_size is None:
            kept, self.buffer = self.buffer, deque()
            self._read()
            self._batch_size = len(self.buffer)
            self.buffer.extendleft(reversed(kept))
        return self._batch_size

    def next_row(self) -> Row:
        """Return the next row.

        Raises:
            DatasetError: The dataloader yields nothing.
        """
        if not self.buffer:
            self._read()
        return self.buffer.popleft()

    def requeue(self, rows: Iterable[Row]) -> None:
        """Put rows before all others, in their order."""
        self.buffer.extendleft(reversed(list(rows)))

    def _read(self) -> None:
        for _ in range(2):  # the rest of this epoch, else the next one
            if self._iterator is None:
                self._iterator = iter(self._dataloader)
            for batch in self._iterator:
                self.buffer.extend(batch if isinstance(batch, list) else [batch])
                if self.buffer:
                    return
            self._iterator = None
        raise DatasetError("the dataloader yields no rows; is the dataset empty?")
