"""Reward models: a score of whole answers, learnt from pairs of which people prefer one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.api.cli_args import RWConfig
from areal.api.errors import ConfigError
from areal.trainer.pairs import SIDES, PairEngine, PairTrainer, record_pairs, whole_pairs
from areal.trainer.supervised import check_supervised_config
from areal.utils.data import TensorDict, collate_samples_to_list, concat_padded_tensors


def check_rw_config(config: RWConfig) -> None:
    """Refuse what would train no reward model.

    Raises:
        ConfigError: Names the keys, and what to set.
    """
    if not config.actor.is_critic:
        raise ConfigError(
            "a reward model gives a score and no logits: set actor.is_critic=true, or "
            "train_dataset.type=dpo for a policy"
        )
    check_supervised_config(config)
    if config.actor.temperature != 1.0:
        raise ConfigError(
            f"actor.temperature {config.actor.temperature} has no effect: it divides logits, and a "
            "reward model has none; leave it out"
        )


def rw_modeling_collate_fn(items: Iterable[Mapping[str, Any]]) -> list[TensorDict]:
    """Return a trajectory of each side, chosen and rejected in turn.

    Args:
        items: Rows of ``chosen_ids`` and ``rejected_ids``.

    Returns:
        Dicts of ``input_ids`` and ``attention_mask``, each [1, L].
    """
    return collate_samples_to_list(
        {"input_ids": item[f"{side}_ids"]} for item in items for side in SIDES
    )


def compute_rw_loss(scores: Tensor, input_: TensorDict) -> Tensor:
    """Return the mean loss of the pairs, and record their statistics in ``stats_tracker``.

    Args:
        scores: Of each token, with gradient, packed [T]; that of a sequence's last token counts.
        input_: With ``cu_seqlens``.

    Source:
        Bradley and Terry 1952, Biometrika 39; InstructGPT (arXiv 2203.02155), equation 1.
    """
    cu_seqlens = input_["cu_seqlens"].long()
    is_whole = whole_pairs(cu_seqlens)
    # The last token of an empty sequence is another one's, and its pair is left out.
    last = (cu_seqlens[1:] - 1).clamp(min=0)
    chosen, rejected = scores[last].view(-1, 2)[is_whole].unbind(1)
    losses = -F.logsigmoid(chosen - rejected)
    record_pairs(
        loss=losses,
        correct_ratio=(chosen > rejected).float(),
        pos_score=chosen,
        neg_score=rejected,
    )
    return losses.sum() / max(len(losses), 1)


class RWEngine(PairEngine):
    """Trains the scores of an engine with ``is_critic``.

    Data are lists of trajectories, chosen and rejected in turn, as ``rw_modeling_collate_fn``
    makes them, or one padded batch of them. Each process passes its own pairs.

    Args:
        engine: Trains the reward model.
    """

    name = "rw"

    def train_rw(self, data: list[TensorDict] | TensorDict) -> dict[str, float]:
        """Take an optimiser step; return its statistics, and those of the loss as ``rw/*``."""
        return self._train(_at_last_token(data), compute_rw_loss)

    def evaluate_rw(self, batches: Iterable[list[TensorDict] | TensorDict]) -> dict[str, float]:
        """Return the statistics of the loss over all batches, as ``rw-eval/*``."""
        return self._evaluate(map(_at_last_token, batches), compute_rw_loss)


def _at_last_token(data: list[TensorDict] | TensorDict) -> TensorDict:
    """Return a batch of which the engine computes the scores of the last tokens alone."""
    batch = concat_padded_tensors(data) if isinstance(data, list) else data
    mask = batch["attention_mask"].bool()
    is_last = mask.clone()
    is_last[:, :-1] &= ~mask[:, 1:]
    return {**batch, "loss_mask": is_last.to(torch.int64)}


def _collate(rows: list[dict[str, Any]]) -> TensorDict:
    return concat_padded_tensors(rw_modeling_collate_fn(rows))


class RWTrainer(PairTrainer):
    """Trains a reward model: ``RWTrainer(config).train()`` inside a ``with`` block.

    Args:
        config: Of the experiment; ``actor.is_critic`` is true.
        train_dataset: Rows with ``chosen_ids`` and ``rejected_ids``; None loads
            ``config.train_dataset``.
        valid_dataset: The same, for evaluation.
    """

    config: RWConfig
    columns = ("chosen_ids", "rejected_ids")
    collate = staticmethod(_collate)

    def __init__(
        self, config: RWConfig, train_dataset: Any = None, valid_dataset: Any = None
    ) -> None:
        check_rw_config(config)
        super().__init__(config, train_dataset, valid_dataset)
        self._scores = RWEngine(self.actor)

    def _update(self, batch: TensorDict) -> dict[str, Any]:
        stats = self._scores.train_rw(batch)
        return {**stats, **self._headline(stats, "rw")}

    def _evaluate_on(self, batches: Iterable[TensorDict]) -> dict[str, Any]:
        stats = self._scores.evaluate_rw(batches)
        return {**stats, **self._headline(stats, "rw-eval")}

    def _headline(self, stats: Mapping[str, float], scope: str) -> dict[str, float]:
        return {
            "loss": stats[f"{scope}/loss"],
            "accuracy": stats[f"{scope}/correct_ratio"],
            "margin": stats[f"{scope}/pos_score"] - stats[f"{scope}/neg_score"],
        }
