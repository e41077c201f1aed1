"""Training on pairs of answers: a chosen and a rejected one, which are never parted.

Batches hold the sequences chosen, rejected, chosen, rejected ... Letters: P pairs of a packed
micro-batch, T its tokens, B sequences (two a pair), L padded length.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from areal.api.errors import DatasetError
from areal.dataset.rows import RowDataset
from areal.engine.training.engine import LossFn, PackedTrainEngine
from areal.trainer.runtime import check_row, each_row
from areal.trainer.supervised import SupervisedTrainer, sequence_problems
from areal.utils import stats_tracker
from areal.utils.data import TensorDict
from areal.utils.data.containers import MULTI_MODAL_PREFIX
from areal.utils.stats_tracker import ReduceType

logger = logging.getLogger("Trainer")

SIDES = ("chosen", "rejected")


def whole_pairs(cu_seqlens: Tensor) -> Tensor:
    """Return which pairs have tokens on both sides: bool [P]."""
    return (cu_seqlens.diff().view(-1, 2) > 0).all(1)


def num_pairs(input_: TensorDict) -> Tensor:
    """Return the number of pairs that carry loss in a packed micro-batch."""
    return whole_pairs(input_["cu_seqlens"]).sum()


def record_pairs(**values: Tensor) -> None:
    """Record one value a pair [K] under the scope that is open in ``stats_tracker``."""
    first = next(iter(values.values()))
    if len(first):
        stats_tracker.denominator(n_pairs=torch.ones_like(first, dtype=torch.bool))
        stats_tracker.stat("n_pairs", ReduceType.AVG, **values)


class PairEngine:
    """Trains an engine on pairs, which stay together in its micro-batches.

    Args:
        engine: Its ``mb_spec.granularity`` becomes 2.
    """

    name: ClassVar[str]

    def __init__(self, engine: PackedTrainEngine) -> None:
        spec = dataclasses.replace(engine.config.mb_spec, granularity=2)
        engine.config = dataclasses.replace(engine.config, mb_spec=spec)
        self.engine = engine

    def _train(self, batch: TensorDict, loss_fn: LossFn) -> dict[str, float]:
        """Take an optimiser step; return what it and the loss have noted, of all processes."""
        self.engine.train()
        with stats_tracker.scope(self.name):
            stats = self.engine.train_batch(batch, loss_fn, num_pairs)
        return {**stats, **self._noted(self.name)}

    @torch.no_grad()
    def _evaluate(self, batches: Iterable[TensorDict], loss_fn: LossFn) -> dict[str, float]:
        """Return what the loss notes of all batches, of all processes."""
        self.engine.eval()
        scope = f"{self.name}-eval"
        for batch in batches:
            with stats_tracker.scope(scope):
                self.engine.eval_batch(batch, loss_fn, num_pairs)
        return self._noted(scope)

    def _noted(self, scope: str) -> dict[str, float]:
        has_others = self.engine.data_parallel_world_size > 1
        group = self.engine.data_parallel_group if has_others else None
        return self.engine.from_last_layers(stats_tracker.export(scope, reduce_group=group))


class PairTrainer(SupervisedTrainer):
    """Trains on rows that have a chosen and a rejected side."""

    @abstractmethod
    def _headline(self, stats: Mapping[str, float], scope: str) -> dict[str, float]:
        """Return loss, accuracy and margin, which reports show of every kind of pairs."""

    def _goal(self) -> tuple[str, float | None]:
        return "accuracy", self.config.run.stop_at_accuracy

    def _sequences_per_step(self) -> int:
        return 2 * super()._sequences_per_step()

    def _usable_rows(self, rows: Any, key: str) -> Any:
        lm = self.weights.lm
        return usable_pairs(rows, self.columns, key, lm.max_length, lm.num_embeddings)


def usable_pairs(
    rows: Any, columns: Iterable[str], key: str, max_length: int, num_embeddings: int
) -> Any:
    """Check all rows of a dataset, and leave out those whose two sides are the same.

    Args:
        rows: With ``chosen_ids`` and ``rejected_ids``, and further columns of one value a token.
        columns: What a row must have.
        key: Of the dataset's section in the configuration, for messages.
        max_length: Tokens that the model takes, at most.
        num_embeddings: Tokens that the model has.

    Raises:
        DatasetError: A row cannot be trained on, or no pair differs.
    """
    if MULTI_MODAL_PREFIX in rows[0]:
        raise DatasetError(
            f"{key}: its rows have images ({MULTI_MODAL_PREFIX}), which training on pairs does not "
            "take; types sft and rl do"
        )
    columns = tuple(columns)
    differing: list[int] = []
    for number, row in enumerate(each_row(rows)):
        check_row(row, f"{key}: row {number}")
        problem = next(_problems(row, columns, max_length, num_embeddings), None)
        if problem:
            raise DatasetError(f"{key}: row {number} {problem}")
        if list(row["chosen_ids"]) != list(row["rejected_ids"]):
            differing.append(number)
    if not differing:
        raise DatasetError(
            f"{key}: both sides of all {len(rows)} pairs are the same, so there is nothing to "
            "prefer; check the columns that chosen_ids and rejected_ids are made of"
        )
    if len(differing) == len(rows):
        return rows
    logger.warning(
        "%s: left out %d of %d pairs, whose two sides are the same",
        key,
        len(rows) - len(differing),
        len(rows),
    )
    return RowDataset(rows).select(differing)


def _problems(
    row: Mapping[str, Any], columns: Iterable[str], max_length: int, num_embeddings: int
) -> Iterator[str]:
    """Yield why a row cannot be trained on."""
    missing = [name for name in columns if name not in row]
    if missing:
        yield f"has no {' and no '.join(missing)}; it has {', '.join(row)}"
        return
    for side in SIDES:
        ids, mask, logprobs = (f"{side}_{of}" for of in ("ids", "loss_mask", "ref_logprobs"))
        aligned = [name for name in (mask, logprobs) if name in columns]
        if row[ids] is not None and not len(row[ids]):
            yield f"has an empty {ids}: an answer has at least its end token; leave the row out"
        yield from sequence_problems(row, ids, aligned, max_length, num_embeddings)
        # Nothing predicts the first token.
        if mask in columns and not any(row[mask][1:]):
            yield (
                f"has a {mask} of 0 after its first token: its answer is empty; end it with the "
                "end token, or leave the row out"
            )
        if logprobs in columns and not all(map(math.isfinite, row[logprobs])):
            yield f"has a {logprobs} that is not finite"
