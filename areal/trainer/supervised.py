"""What trainers on given rows share: each process reads its own part of every batch."""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from areal.api.cli_args import BaseExperimentConfig, RunConfig
from areal.api.errors import ConfigError
from areal.trainer.base import BaseTrainer, check_actor
from areal.trainer.report import EpisodeSample
from areal.utils.data import TensorDict
from areal.utils.data.containers import values_to_tensor
from areal.utils.dataloader import create_dataloader


def check_supervised_config(config: BaseExperimentConfig) -> None:
    """Refuse what training on given rows cannot do, or would not look at.

    Raises:
        ConfigError: It names the keys.
    """
    check_actor(config)
    usual = RunConfig()
    # All others shape rollouts, rewards and the policy loss.
    used = {"algorithm", "model"}
    if config.train_dataset.type in ("rw", "dpo"):
        used.add("stop_at_accuracy")
    for option in dataclasses.fields(RunConfig):
        value = getattr(config.run, option.name)
        if option.name not in used and value != getattr(usual, option.name):
            raise ConfigError(
                f"run.{option.name} {value!r} has no effect: train_dataset.type "
                f"{config.train_dataset.type} trains on given rows, without rollouts; leave it out"
            )


def sequence_problems(
    row: Mapping[str, Any], ids: str, aligned: Iterable[str], max_length: int, num_embeddings: int
) -> Iterator[str]:
    """Yield why a sequence of a row cannot be trained on.

    Args:
        row: Of a dataset.
        ids: The column of its tokens.
        aligned: Columns of one value a token.
        max_length: Tokens that the model takes, at most.
        num_embeddings: Tokens that the model has.
    """
    tokens = _as_array(row[ids])
    if tokens is None or tokens.ndim != 1 or (len(tokens) and tokens.dtype.kind == "f"):
        yield f"has no list of token ids in {ids}, but {row[ids]!r:.80}"
        return
    if len(tokens) > max_length:
        yield (
            f"has {len(tokens)} tokens in {ids}, and the model takes {max_length}; set "
            "max_length of the dataset, which leaves longer rows out"
        )
    unknown = tokens[(tokens < 0) | (tokens >= num_embeddings)]
    if len(unknown):
        yield (
            f"has the token {int(unknown[0])} in {ids}, and the model has 0 to "
            f"{num_embeddings - 1}; is it another tokenizer's?"
        )
    for name in aligned:
        values = _as_array(row[name])
        if values is None or values.ndim != 1:
            yield f"has no list of numbers in {name}, but {row[name]!r:.80}"
            return
        if len(values) != len(tokens):
            yield f"has {len(values)} values in {name} for {len(tokens)} tokens in {ids}"
        odd = values[(values != 0) & (values != 1)]
        if name.endswith("loss_mask") and len(odd):
            yield f"has the value {odd[0].item():g} in {name}, and a loss mask has 0 and 1 alone"


def _as_array(values: Any) -> np.ndarray | None:
    """Return numbers as training takes them, in NumPy: small checks cost a third of PyTorch's."""
    try:
        tensor = values_to_tensor(values)
        # NumPy has no bfloat16.
        tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
        return tensor.numpy(force=True)
    except (TypeError, ValueError, RuntimeError):
        return None


class SupervisedTrainer(BaseTrainer):
    """Trains on the rows of a dataset: ``train()`` inside a ``with`` block.

    Args:
        config: Of the experiment.
        train_dataset: Rows with ``columns``; None loads ``config.train_dataset``.
        valid_dataset: The same, for evaluation.
    """

    collate: ClassVar[Callable[[list[dict[str, Any]]], TensorDict]]

    _batches: Iterator[TensorDict] | None = None

    def __init__(self, config: Any, train_dataset: Any = None, valid_dataset: Any = None) -> None:
        check_supervised_config(config)
        super().__init__(config, train_dataset, valid_dataset)

    def train(self) -> None:
        """Run the training to its end."""
        self._loop()

    @abstractmethod
    def _update(self, batch: TensorDict) -> dict[str, Any]:
        """Take one optimiser step on this process's part of a batch; return the statistics of all.

        Statistics of the optimiser may be missing where nothing could be learnt.
        """

    def _make_dataloader(self, dataset: Any, config: Any) -> Any:
        return create_dataloader(
            dataset,
            self.actor.data_parallel_rank,
            self.actor.data_parallel_world_size,
            config,
            collate_fn=type(self).collate,
            seed=self.config.seed,
        )

    def _train_step(self) -> tuple[dict[str, Any], Sequence[EpisodeSample]]:
        started = time.perf_counter()
        batch = self._next_batch()
        num_tokens, num_seqs = self.actor.sums_over_data(
            int(batch["attention_mask"].sum()), len(batch["input_ids"])
        )
        self.actor.train()
        stats = self._update(batch)
        self.actor.lr_scheduler_step()
        self.actor.set_version(self.step + 1)
        self.num_sequences += int(num_seqs)
        stats["n_tokens"] = int(num_tokens)
        stats["tokens_per_s"] = num_tokens / (time.perf_counter() - started)
        return stats, ()

    def _next_batch(self) -> TensorDict:
        if self._batches is None:
            self._batches = iter(self.train_dataloader)
        batch = next(self._batches, None)
        if batch is None:  # the next epoch
            self._batches = iter(self.train_dataloader)
            batch = next(self._batches)
        return batch

    @torch.no_grad()
    def _evaluate(self) -> dict[str, Any]:
        self.actor.eval()
        config = self.config.valid_dataset or dataclasses.replace(
            self.config.train_dataset, shuffle=False, drop_last=False
        )
        return self._evaluate_on(self._make_dataloader(self.valid_dataset, config))

    @abstractmethod
    def _evaluate_on(self, batches: Iterable[TensorDict]) -> dict[str, Any]:
        """Return the statistics of all rows of the evaluation."""
