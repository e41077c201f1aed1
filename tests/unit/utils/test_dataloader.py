from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from areal.api.errors import ConfigError, DatasetError
from areal.utils.dataloader import SeededSampler, create_dataloader


@dataclass
class Config:
    batch_size: int = 4
    shuffle: bool = True
    drop_last: bool = True
    num_workers: int = 0
    pin_memory: bool = False


def rows(count: int) -> list[dict[str, int]]:
    return [{"row": number} for number in range(count)]


def epoch(loader: Iterable[Any]) -> list[list[int]]:
    return [[row["row"] for row in batch] for batch in loader]


def test_an_epoch_holds_every_row_once_in_a_random_order() -> None:
    batches = epoch(create_dataloader(rows(20), 0, 1, Config()))
    numbers = [number for batch in batches for number in batch]
    assert [len(batch) for batch in batches] == [4] * 5
    assert sorted(numbers) == list(range(20))
    assert numbers != list(range(20))


def test_the_order_follows_from_the_seed_and_changes_with_the_epoch() -> None:
    first, again = (create_dataloader(rows(20), 0, 1, Config(), seed=3) for _ in range(2))
    other = create_dataloader(rows(20), 0, 1, Config(), seed=4)
    epochs = [epoch(first) for _ in range(3)]
    assert epochs == [epoch(again) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert epochs[0] != epoch(other)


def test_an_iteration_broken_off_starts_the_epoch_again() -> None:
    loader = create_dataloader(rows(20), 0, 1, Config())
    peeked = next(iter(loader))
    assert [row["row"] for row in peeked] == epoch(loader)[0]


@pytest.mark.parametrize("is_exhausted", [False, True])
def test_a_position_saved_at_the_end_of_an_epoch_continues_with_the_next(
    is_exhausted: bool,
) -> None:
    reference = create_dataloader(rows(20), 0, 1, Config())
    epochs = [epoch(reference) for _ in range(2)]
    loader = create_dataloader(rows(20), 0, 1, Config())
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    if is_exhausted:
        assert next(iterator, None) is None
    restored = create_dataloader(rows(20), 0, 1, Config())
    restored.load_state_dict(loader.state_dict())
    assert epoch(restored) == epochs[1]


def test_without_shuffle_the_order_is_the_datasets() -> None:
    loader = create_dataloader(rows(6), 0, 1, Config(batch_size=2, shuffle=False))
    assert epoch(loader) == [[0, 1], [2, 3], [4, 5]]
    assert epoch(loader) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(("drop_last", "sizes"), [(True, [4, 4]), (False, [4, 4, 2])])
def test_an_incomplete_batch_is_dropped_or_kept(drop_last: bool, sizes: list[int]) -> None:
    loader = create_dataloader(rows(10), 0, 1, Config(drop_last=drop_last))
    assert [len(batch) for batch in epoch(loader)] == sizes
    assert len(loader) == len(sizes)


@pytest.mark.parametrize(("num_rows", "drop_last"), [(16, True), (18, True), (18, False)])
def test_ranks_share_the_rows(num_rows: int, drop_last: bool) -> None:
    config = Config(batch_size=8, drop_last=drop_last)
    parts = [
        [
            number
            for batch in epoch(create_dataloader(rows(num_rows), rank, 4, config))
            for number in batch
        ]
        for rank in range(4)
    ]
    assert len({len(part) for part in parts}) == 1, "every rank must make equally many steps"
    together = [number for part in parts for number in part]
    if drop_last:
        assert len(together) == len(set(together)) == 16
    else:
        assert set(together) == set(range(num_rows))


# Worker processes are slow to start and fetch ahead; two positions show that this is undone.
@pytest.mark.parametrize(
    ("num_workers", "num_batches"),
    [*((0, position) for position in (0, 1, 4, 5, 6, 9, 10, 11)), (1, 4), (1, 6)],
)
def test_a_restored_position_gives_the_very_next_batch(num_workers: int, num_batches: int) -> None:
    config = Config(num_workers=num_workers)

    def stream(loader: Iterable[Any], count: int) -> list[list[int]]:
        got: list[list[int]] = []
        while len(got) < count:
            for batch in loader:
                got.append([row["row"] for row in batch])
                if len(got) == count:
                    break
        return got

    expected = stream(create_dataloader(rows(20), 0, 1, Config(), seed=5), 16)
    loader = create_dataloader(rows(20), 0, 1, config, seed=5)
    before: list[list[int]] = []
    iterator = iter(loader)
    while len(before) < num_batches:
        try:
            before.append([row["row"] for row in next(iterator)])
        except StopIteration:
            iterator = iter(loader)
    state = loader.state_dict()
    restored = create_dataloader(rows(20), 0, 1, config, seed=5)
    restored.load_state_dict(state)
    assert before + stream(restored, 16 - num_batches) == expected


def test_a_position_in_other_rows_is_refused() -> None:
    sampler = SeededSampler(20, seed=1)
    state = SeededSampler(30, seed=1).state_dict()
    with pytest.raises(ConfigError, match="num_rows was 30 and is 20"):
        sampler.load_state_dict(state)


@pytest.mark.parametrize(
    ("num_rows", "config", "world_size", "error", "message"),
    [
        (3, Config(), 1, DatasetError, "3 rows, fewer than batch_size 4"),
        (0, Config(), 1, DatasetError, "no rows"),
        (0, Config(drop_last=False), 1, DatasetError, "no rows"),
        (20, Config(batch_size=0), 1, ConfigError, "positive multiple"),
        (20, Config(batch_size=6), 4, ConfigError, "multiple of the 4"),
    ],
)
def test_what_cannot_be_batched_is_refused(
    num_rows: int, config: Config, world_size: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_dataloader(rows(num_rows), 0, world_size, config)


def test_a_small_dataset_is_fine_if_batches_may_be_incomplete() -> None:
    loader = create_dataloader(rows(3), 0, 1, Config(drop_last=False, shuffle=False))
    assert epoch(loader) == [[0, 1, 2]]


def test_collate_fn_makes_the_batch() -> None:
    config = Config(batch_size=2, shuffle=False)
    loader = create_dataloader(rows(4), 0, 1, config, lambda batch: len(batch))
    assert list(loader) == [2, 2]
