from __future__ import annotations

from typing import Any

import pytest

from areal.api.errors import DatasetError
from areal.infra.row_feed import RowFeed


def _loader(*batches: int) -> list[list[dict[str, Any]]]:
    rows = iter(range(100))
    return [[{"id": next(rows)} for _ in range(size)] for size in batches]


def _take(feed: RowFeed, count: int) -> list[int]:
    return [feed.next_row()["id"] for _ in range(count)]


def test_rows_come_one_by_one_round_and_round() -> None:
    assert _take(RowFeed(_loader(2, 1)), 7) == [0, 1, 2, 0, 1, 2, 0]


def test_no_batch_is_read_before_it_is_needed() -> None:
    read: list[int] = []

    class Loader:
        batch_size = 2

        def __iter__(self) -> Any:
            for batch in _loader(2, 2):
                read.append(batch[0]["id"])
                yield batch

    feed = RowFeed(Loader())
    assert feed.batch_size == 2
    assert read == []
    _take(feed, 2)
    assert read == [0]
    assert list(feed.buffer) == []
    _take(feed, 1)
    assert read == [0, 2]
    assert list(feed.buffer) == [{"id": 3}]


def test_the_first_batch_says_the_size_where_the_loader_does_not() -> None:
    feed = RowFeed(_loader(3, 3), first_rows=[{"id": 50}])
    assert feed.batch_size == 3
    assert _take(feed, 5) == [50, 0, 1, 2, 3]


def test_requeued_rows_come_first_in_their_order() -> None:
    feed = RowFeed(_loader(2))
    assert _take(feed, 1) == [0]
    feed.requeue([{"id": 7}, {"id": 8}])
    assert _take(feed, 4) == [7, 8, 1, 0]


@pytest.mark.parametrize("loader", [[], [[]]])
def test_a_loader_without_rows_is_an_error(loader: list[Any]) -> None:
    with pytest.raises(DatasetError, match="yields no rows"):
        RowFeed(loader).next_row()
