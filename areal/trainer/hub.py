"""One process has the rollouts; all processes of the run train on them.

The first process is the hub: it talks to inference engines, computes advantages and keeps the
books. The others get their rows of every batch from it and give back what they computed. With one
process nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from areal.api.errors import EpisodeFailureError, RankError
from areal.engine.processes import from_first, is_first
from areal.utils.data import TensorDict
from areal.utils.data.microbatch import take_rows
from areal.utils.seqpack import partition_sizes

if TYPE_CHECKING:
    from areal.engine.training.engine import PackedTrainEngine

T = TypeVar("T")


class Hub:
    """Moves rows and results between the first process and all of them.

    Every method is called by all processes together.

    Args:
        engine: Which processes see other rows, and which share theirs.
    """

    def __init__(self, engine: PackedTrainEngine) -> None:
        self._group = engine.cpu_group if dist.is_initialized() else None
        self._replicas = [0]  # of each process, the index of its share of the rows
        if self._group is not None:
            found: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(found, engine.data_parallel_rank, group=self._group)
            self._replicas = found
        self._shares: list[list[int]] = []  # rows of each replica, of the batch last scattered

    def first(self, function: Callable[[], T]) -> T | None:
        """Run a function in the first process, where its result stays; return None in the others.

        Raises:
            EpisodeFailureError: The function raised it; all processes raise it, so that they can
                save the model together.
            RankError: In the other processes, where the function raised anything else.
        """
        if self._group is None:
            return function()
        value: T | None = None
        error: BaseException | None = None
        if is_first():
            try:
                value = function()
            except BaseException as raised:
                error = raised
        try:
            failure = from_first(error and (type(error).__name__, str(error)))
        except RuntimeError:
            # A signal to all has ended another process first; why this one ends is the error.
            if error is None:
                raise
            failure = None
        if error is not None:
            raise error
        if failure is not None:
            name, message = failure
            kind = EpisodeFailureError if name == EpisodeFailureError.__name__ else RankError
            raise kind(f"the first process failed: {message}")
        return value

    def same(self, value: T) -> T:
        """Return in all processes what the first one passed."""
        return from_first(value)

    def scatter(self, batch: TensorDict | None) -> TensorDict:
        """Give each replica its rows of a batch; shares have about equally many tokens.

        Args:
            batch: Padded tensors [B, ...]; None in all processes but the first.

        Returns:
            The rows of this process, which may be none.
        """
        if self._group is None:
            assert batch is not None
            return batch
        parts: list[TensorDict] | None = None
        if is_first():
            assert batch is not None
            self._shares = _balanced_shares(batch, max(self._replicas) + 1)
            by_replica = [take_rows(batch, share) for share in self._shares]
            parts = [by_replica[replica] for replica in self._replicas]
        box: list[Any] = [None]
        dist.scatter_object_list(box, parts, src=0, group=self._group)
        received: TensorDict = box[0]
        return received

    def gather(self, rows: Tensor) -> Tensor | None:
        """Put what each replica computed for its rows back in the order of the batch.

        Args:
            rows: One row [b, ...] for each that the last ``scatter`` gave.

        Returns:
            Them all [B, ...] in the first process, in host memory as the batch; None in the others.
        """
        if self._group is None:
            return rows.cpu()
        found = self.gather_all([rows])
        if found is None:
            return None
        order = torch.tensor([row for share in self._shares for row in share])
        joined = torch.cat([part for parts in found for part in parts])
        return torch.empty_like(joined).index_copy_(0, order, joined)

    def gather_all(self, value: list[Any]) -> list[list[Any]] | None:
        """Return the list of each replica in the first process, None in the others.

        What has a method ``cpu`` travels as that returns it. Of the processes that share a
        replica's rows, one that has something to give counts: in a pipeline only the last stage
        sees the loss.
        """
        if self._group is None:
            return [value]
        found: list[Any] | None = [None] * len(self._replicas) if is_first() else None
        sent = [each.cpu() if hasattr(each, "cpu") else each for each in value]
        dist.gather_object(sent, found, dst=0, group=self._group)
        if found is None:
            return None
        by_replica: dict[int, list[Any]] = {}
        for replica, given in zip(self._replicas, found, strict=True):
            if not by_replica.get(replica):
                by_replica[replica] = given
        return [by_replica[replica] for replica in sorted(by_replica)]


def _balanced_shares(batch: TensorDict, count: int) -> list[list[int]]:
    sizes = batch["attention_mask"].sum(1).tolist()
    shares = partition_sizes(sizes, min_groups=count, algorithm="kk")
    return shares + [[] for _ in range(count - len(shares))]
