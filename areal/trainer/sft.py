"""Supervised fine-tuning."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from areal.api.cli_args import SFTConfig
from areal.api.errors import DatasetError
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.advantages import shift_to_next_token
from areal.trainer.runtime import check_row, each_row
from areal.trainer.supervised import SupervisedTrainer, sequence_problems
from areal.utils.data import TensorDict, collate_samples_to_list, concat_padded_tensors
from areal.utils.data.containers import MULTI_MODAL_PREFIX

logger = logging.getLogger("Trainer")

# What a train engine reads of every row, beside images; other columns need not be in every one.
_COLUMNS = ("input_ids", "loss_mask")


def sft_loss_fn(logprobs: Tensor, entropy: Tensor, input_data: dict[str, Any]) -> Tensor:
    """Return the mean negative log-likelihood of the tokens that carry loss, in nats."""
    mask = input_data["loss_mask"].bool()
    return -(logprobs * mask).sum() / mask.sum().clamp(min=1)


def num_loss_tokens(input_data: dict[str, Any]) -> Tensor:
    """Return the number of tokens that carry loss."""
    return input_data["loss_mask"].sum()


def _collate(samples: list[dict[str, Any]]) -> TensorDict:
    """Return a padded batch, its loss mask at the tokens that predict, as train engines take it."""
    read = [{name: row[name] for name in _COLUMNS} for row in samples]
    if any(MULTI_MODAL_PREFIX in row for row in samples):
        for given, row in zip(samples, read, strict=True):
            row[MULTI_MODAL_PREFIX] = given.get(MULTI_MODAL_PREFIX, {})
    return _aligned(collate_samples_to_list(read))


class LMEngine:
    """Fine-tunes an engine on given answers.

    Data are lists of trajectories with ``loss_mask`` at the tokens themselves, or one padded batch
    whose loss mask is at the tokens that predict. Each process passes its own.

    Args:
        engine: Trains the model.
    """

    def __init__(self, engine: PackedTrainEngine) -> None:
        self.engine = engine

    def train_lm(self, data: list[TensorDict] | TensorDict) -> dict[str, float]:
        """Take an optimiser step; return its statistics and the loss, {} where no token has one."""
        batch = _aligned(data)
        losses: list[Tensor] = []

        def loss_fn(logprobs: Tensor, entropy: Tensor, input_data: dict[str, Any]) -> Tensor:
            loss = sft_loss_fn(logprobs, entropy, input_data)
            losses.append(loss.detach() * num_loss_tokens(input_data))
            return loss

        self.engine.train()
        (num_losses,) = self.engine.sums_over_data(float(num_loss_tokens(batch)))
        if not num_losses:
            return {}
        stats = dict(self.engine.train_batch(batch, loss_fn, num_loss_tokens))
        (total,) = self.engine.sums_over_data(sum(float(loss) for loss in losses))
        stats["loss"] = self.engine.from_last_layers(total) / num_losses
        return stats

    def evaluate_lm(self, data: list[TensorDict] | Iterable[TensorDict]) -> dict[str, float]:
        """Return the loss over all tokens of trajectories, or of padded batches."""
        self.engine.eval()
        total = tokens = 0.0
        for batch in [_aligned(data)] if isinstance(data, list) else data:
            loss = self.engine.eval_batch(batch, sft_loss_fn, num_loss_tokens)
            (count,) = self.engine.sums_over_data(float(num_loss_tokens(batch)))
            if loss is not None:
                total, tokens = total + float(loss) * count, tokens + count
        return {"loss": total / max(tokens, 1.0)}


def _aligned(data: list[TensorDict] | TensorDict) -> TensorDict:
    if not isinstance(data, list):
        return data
    batch = concat_padded_tensors(data)
    return {**batch, "loss_mask": shift_to_next_token(batch["loss_mask"])}


class SFTTrainer(SupervisedTrainer):
    """Trains on given answers: ``SFTTrainer(config).train()`` inside a ``with`` block.

    Args:
        config: Of the experiment.
        train_dataset: Rows with ``input_ids`` and ``loss_mask``; None loads
            ``config.train_dataset``.
        valid_dataset: The same, for evaluation; None does not evaluate.
    """

    config: SFTConfig
    columns = ("input_ids", "loss_mask")
    collate = staticmethod(_collate)

    def _usable_rows(self, rows: Any, key: str) -> Any:
        lm = self.weights.lm
        if lm.takes_images and MULTI_MODAL_PREFIX in rows[0]:
            return rows  # reading a row prepares its images
        for number, row in enumerate(each_row(rows)):
            check_row(row, f"{key}: row {number}")
            if MULTI_MODAL_PREFIX in row and not lm.takes_images:
                raise DatasetError(
                    f"{key}: row {number} has images ({MULTI_MODAL_PREFIX}), and the model takes "
                    "text alone; name an image model in actor.path, or describe one in "
                    "run.model.vision"
                )
            missing = " and no ".join(name for name in self.columns if name not in row)
            if missing:
                raise DatasetError(f"{key}: row {number} has no {missing}; it has {', '.join(row)}")
            found = sequence_problems(
                row, "input_ids", ["loss_mask"], lm.max_length, lm.num_embeddings
            )
            if problem := next(found, None):
                raise DatasetError(f"{key}: row {number} {problem}")
        return rows

    def _update(self, batch: TensorDict) -> dict[str, Any]:
        stats = LMEngine(self.actor).train_lm(batch)
        if not stats:
            logger.warning("no token of the batch of step %d carries loss", self.step + 1)
        return stats

    def _evaluate_on(self, batches: Iterable[TensorDict]) -> dict[str, Any]:
        return LMEngine(self.actor).evaluate_lm(batches)
