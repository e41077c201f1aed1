"""A dataloader whose order follows from a seed and whose position can be saved and restored."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Sampler
from torchdata.stateful_dataloader import StatefulDataLoader

from areal.api.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from areal.api.cli_args import _DatasetConfig


class SeededSampler(Sampler[int]):
    """This rank's row numbers, epoch after epoch, each epoch in an order of its own.

    The order of an epoch depends on seed and epoch alone, so all ranks agree on it and a restored
    sampler continues with the very next row.

    Args:
        num_rows: Rows of the whole dataset.
        rank: This process.
        world_size: Number of processes; each takes every ``world_size``-th row of the order.
        shuffle: Whether the order is random.
        drop_last: Whether rows that do not fill a round of all ranks are left out; otherwise the
            first rows of the order fill it up, so that all ranks have equally many.
        seed: Determines the orders.
    """

    def __init__(
        self,
        num_rows: int,
        rank: int = 0,
        world_size: int = 1,
        *,
        shuffle: bool = True,
        drop_last: bool = True,
        seed: int = 0,
    ) -> None:
        self.num_rows = num_rows
        self.rank = rank
        self.world_size = world_size
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self._position = 0
        self._continues = False
        rounds, rest = divmod(num_rows, world_size)
        self._length = rounds + bool(rest and not drop_last)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        """Yield the epoch, or what a restored state left of it; at its end the epoch counts up.

        An iteration that is broken off leaves the epoch: the next one starts it again.
        """
        # This runs at the first next(): iterators that are made and thrown away change nothing.
        if not self._continues:
            self._position = 0
        elif self._position >= self._length:
            # Saved after the last row: continuing must not give an epoch of nothing.
            self._finish_epoch()
        self._continues = False
        order = self._order()
        while self._position < self._length:
            index = order[(self.rank + self._position * self.world_size) % self.num_rows]
            self._position += 1
            yield index
        self._finish_epoch()

    def _finish_epoch(self) -> None:
        self.epoch += 1
        self._position = 0

    def state_dict(self) -> dict[str, int]:
        """Return epoch and position, and what they are only valid with."""
        return {"epoch": self.epoch, "position": self._position, **self._identity()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue where another sampler of the same rows and seed stood.

        Raises:
            ConfigError: The state belongs to other rows, another seed or another number of ranks.
        """
        for key, mine in self._identity().items():
            if state[key] != mine:
                raise ConfigError(
                    f"cannot resume the dataloader: {key} was {state[key]} and is {mine} now"
                )
        self.epoch, self._position = state["epoch"], state["position"]
        self._continues = True

    def _identity(self) -> dict[str, int]:
        return {"num_rows": self.num_rows, "world_size": self.world_size, "seed": self.seed}

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.num_rows))
        # Two numbers in one seed: epochs of one seed and seeds of one epoch must both differ.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        return torch.randperm(self.num_rows, generator=generator).tolist()


def create_dataloader(
    dataset: Sized,
    rank: int,
    world_size: int,
    dataset_config: _DatasetConfig,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    *,
    seed: int = 0,
) -> StatefulDataLoader:
    """Make the dataloader of one rank.

    Args:
        dataset: Rows; needs ``len`` and indexing.
        rank: This process.
        world_size: Number of processes; ``batch_size`` is for all of them together.
        dataset_config: Gives ``batch_size``, ``shuffle``, ``drop_last``, ``num_workers`` and
            ``pin_memory``.
        collate_fn: List of rows to batch; None leaves the list as it is.
        seed: Determines the order of the rows in every epoch.

    Returns:
        A loader with ``state_dict`` and ``load_state_dict``; each iteration is one epoch, and the
        order changes from epoch to epoch.

    Raises:
        ConfigError: ``batch_size`` is not positive or no multiple of ``world_size``.
        DatasetError: The dataset is empty, or smaller than a batch that may not be incomplete.
    """
    batch_size, num_rows = dataset_config.batch_size, len(dataset)
    if batch_size < 1 or batch_size % world_size:
        raise ConfigError(
            f"batch_size must be a positive multiple of the {world_size} data-parallel ranks, "
            f"but is {batch_size}"
        )
    if not num_rows:
        raise DatasetError("the dataset has no rows")
    if dataset_config.drop_last and num_rows < batch_size:
        raise DatasetError(
            f"the dataset has {num_rows} rows, fewer than batch_size {batch_size}: there would be "
            "no batch; lower batch_size or set drop_last to false"
        )
    sampler = SeededSampler(
        num_rows,
        rank,
        world_size,
        shuffle=dataset_config.shuffle,
        drop_last=dataset_config.drop_last,
        seed=seed,
    )
    with warnings.catch_warnings():
        # torchdata 0.11 still sets a statistic that torch 2.13 has deprecated; nothing reads it.
        warnings.filterwarnings("ignore", message="'set_vital' is deprecated")
        return StatefulDataLoader(
            dataset,
            batch_size=batch_size // world_size,
            sampler=sampler,
            drop_last=dataset_config.drop_last,
            num_workers=dataset_config.num_workers,
            # Without an accelerator there is nothing to pin for, and PyTorch would only warn.
            pin_memory=dataset_config.pin_memory and torch.accelerator.is_available(),
            collate_fn=collate_fn or _identity,
            # Else each iterator takes a number from the global stream, and a resumed run one more.
            generator=torch.Generator().manual_seed(seed),
        )


def _identity(rows: list[Any]) -> list[Any]:
    # A named function, because worker processes get it pickled.
    return rows
