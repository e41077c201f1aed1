"""A batch cut up for several optimiser steps."""

from __future__ import annotations

from collections.abc import Iterator

from areal.api.cli_args import MicroBatchSpec
from areal.engine.processes import largest_over
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.hub import Hub
from areal.utils.data import TensorDict, split_padded_tensor_dict_into_mb_list


def cut_minibatches(batch: TensorDict, count: int) -> list[TensorDict]:
    """Cut a batch for as many optimiser steps; what carries no loss is left out."""
    count = min(count, len(batch["attention_mask"]))
    minibatches = [batch]
    if count > 1:
        minibatches = split_padded_tensor_dict_into_mb_list(batch, MicroBatchSpec(n_mbs=count)).mbs
    return [minibatch for minibatch in minibatches if bool(minibatch["loss_mask"].any())]


def scattered_minibatches(hub: Hub, batch: TensorDict | None, count: int) -> Iterator[TensorDict]:
    """Yield this process's rows of each minibatch of a batch that the first process has."""
    minibatches = [] if batch is None else cut_minibatches(batch, count)
    for i in range(hub.same(len(minibatches))):
        yield hub.scatter(minibatches[i] if minibatches else None)


def own_minibatches(
    engine: PackedTrainEngine, batch: TensorDict, count: int
) -> Iterator[TensorDict]:
    """Yield the minibatches of a batch that is this process's alone.

    All processes of the engine take equally many steps; one that has fewer rows yields {}.
    """
    minibatches = cut_minibatches(batch, count)
    group = engine.data_parallel_group if engine.data_parallel_world_size > 1 else None
    for i in range(largest_over(group, len(minibatches))):
        yield minibatches[i] if i < len(minibatches) else {}
