"""Supervised fine-tuning."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from areal.api.cli_args import SFTConfig
from areal.trainer.advantages import shift_to_next_token
from areal.trainer.base import BaseTrainer
from areal.trainer.report import EpisodeSample
from areal.utils.data import collate_samples_to_list, concat_padded_tensors
from areal.utils.dataloader import create_dataloader

logger = logging.getLogger("Trainer")


def sft_loss_fn(logprobs: Tensor, entropy: Tensor, input_data: dict[str, Any]) -> Tensor:
    """Return the mean negative log-likelihood of the tokens that carry loss, in nats."""
    mask = input_data["loss_mask"].bool()
    return -(logprobs * mask).sum() / mask.sum().clamp(min=1)


def num_loss_tokens(input_data: dict[str, Any]) -> Tensor:
    """Return the number of tokens that carry loss."""
    return input_data["loss_mask"].sum()


class SFTTrainer(BaseTrainer):
    """Trains on given answers: ``SFTTrainer(config).train()`` inside a ``with`` block.

    Args:
        config: Of the experiment.
        train_dataset: Rows with ``input_ids`` and ``loss_mask``; None loads
            ``config.train_dataset``.
        valid_dataset: The same, for evaluation; None does not evaluate.
    """

    config: SFTConfig
    columns = ("input_ids", "loss_mask")

    _batches: Iterator[dict[str, Any]] | None = None

    def train(self) -> None:
        """Run the training to its end."""
        self._loop()

    def _make_dataloader(self, dataset: Any, config: Any) -> Any:
        return create_dataloader(
            dataset,
            self.actor.data_parallel_rank,
            self.actor.data_parallel_world_size,
            config,
            collate_fn=_collate,
            seed=self.config.seed,
        )

    def _train_step(self) -> tuple[dict[str, Any], Sequence[EpisodeSample]]:
        started = time.perf_counter()
        batch = self._next_batch()
        self.actor.train()
        losses: list[Tensor] = []

        def loss_fn(logprobs: Tensor, entropy: Tensor, input_data: dict[str, Any]) -> Tensor:
            loss = sft_loss_fn(logprobs, entropy, input_data)
            losses.append(loss.detach() * num_loss_tokens(input_data))
            return loss

        stats: dict[str, Any] = {}
        num_tokens, num_losses, num_seqs = self.actor.sums_over_data(
            int(batch["attention_mask"].sum()),
            float(num_loss_tokens(batch)),
            len(batch["input_ids"]),
        )
        if num_losses:
            stats = dict(self.actor.train_batch(batch, loss_fn, num_loss_tokens))
            (total,) = self.actor.sums_over_data(sum(float(loss) for loss in losses))
            stats["loss"] = self.actor.from_last_layers(total) / num_losses
        else:
            logger.warning("no token of the batch of step %d carries loss", self.step + 1)
        self.actor.lr_scheduler_step()
        self.actor.set_version(self.step + 1)
        self.num_sequences += int(num_seqs)
        stats["n_tokens"] = int(num_tokens)
        stats["tokens_per_s"] = num_tokens / (time.perf_counter() - started)
        return stats, ()

    def _next_batch(self) -> dict[str, Any]:
        if self._batches is None:
            self._batches = iter(self.train_dataloader)
        rows = next(self._batches, None)
        if rows is None:  # the next epoch
            self._batches = iter(self.train_dataloader)
            rows = next(self._batches)
        return _aligned(rows)

    @torch.no_grad()
    def _evaluate(self) -> dict[str, Any]:
        self.actor.eval()
        total = tokens = 0.0
        config = self.config.valid_dataset or dataclasses.replace(
            self.config.train_dataset, shuffle=False, drop_last=False
        )
        for rows in self._make_dataloader(self.valid_dataset, config):
            batch = _aligned(rows)
            loss = self.actor.eval_batch(batch, sft_loss_fn, num_loss_tokens)
            (count,) = self.actor.sums_over_data(float(num_loss_tokens(batch)))
            if loss is not None:
                total, tokens = total + float(loss) * count, tokens + count
        return {"loss": total / max(tokens, 1.0)}


def _collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return concat_padded_tensors(collate_samples_to_list(samples))


def _aligned(batch: dict[str, Any]) -> dict[str, Any]:
    """Move the loss mask to the token that predicts, as train engines take it."""
    return {**batch, "loss_mask": shift_to_next_token(batch["loss_mask"])}
