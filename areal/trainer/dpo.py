"""Direct preference optimisation: pairs of answers and a reference model, no rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from areal.api.cli_args import DPOConfig, DPOEngineConfig
from areal.api.errors import ConfigError
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.advantages import shift_to_next_token
from areal.trainer.pairs import (
    SIDES,
    PairEngine,
    PairTrainer,
    record_pairs,
    usable_pairs,
    whole_pairs,
)
from areal.trainer.runtime import check_tokenizer, make_colocated_engine
from areal.trainer.supervised import check_supervised_config
from areal.utils.data import TensorDict, collate_samples_to_list, concat_padded_tensors
from areal.utils.functional import dpo_logits, dpo_pair_logratios, dpo_preference_loss

# What the rows may have in the place of a reference model.
REF_COLUMNS = tuple(f"{side}_ref_logprobs" for side in SIDES)


def check_dpo_config(config: DPOConfig) -> None:
    """Refuse what would train on something else than what was asked for.

    Raises:
        ConfigError: Names the keys, and what to set.
    """
    check_supervised_config(config)
    actor, ref = config.actor, config.ref
    if ref.temperature != actor.temperature:
        raise ConfigError(
            f"ref.temperature is {ref.temperature} and actor.temperature {actor.temperature}: "
            "their log-probabilities are compared; set both to one value"
        )
    usual = DPOEngineConfig()
    for name in ("beta", "loss_type"):
        value = getattr(ref, name)
        if value not in (getattr(usual, name), getattr(actor, name)):
            raise ConfigError(f"ref.{name} {value!r} has no effect; set actor.{name}")
    if ref.optimizer is not None:
        raise ConfigError("ref.optimizer is set, and the reference is not trained; set it to null")


def dpo_modeling_collate_fn(items: Iterable[Mapping[str, Any]]) -> list[TensorDict]:
    """Return a trajectory of each side, chosen and rejected in turn.

    Args:
        items: Rows of ``chosen_ids``, ``rejected_ids``, ``chosen_loss_mask`` and
            ``rejected_loss_mask``; where they also have ``chosen_ref_logprobs`` and
            ``rejected_ref_logprobs``, these are kept.

    Returns:
        Dicts of ``input_ids``, ``attention_mask``, ``loss_mask`` (at the tokens themselves) and
        maybe ``ref_logprobs``, each [1, L].
    """
    columns = {"input_ids": "ids", "loss_mask": "loss_mask", "ref_logprobs": "ref_logprobs"}
    return collate_samples_to_list(
        {key: item[f"{side}_{of}"] for key, of in columns.items() if f"{side}_{of}" in item}
        for item in items
        for side in SIDES
    )


def compute_dpo_loss(
    logprobs: Tensor,
    entropy: Tensor | None,
    input_: TensorDict,
    *,
    beta: float,
    loss_type: str = "sigmoid",
) -> Tensor:
    """Return the mean loss of the pairs, and record their statistics in ``stats_tracker``.

    A reward is ``beta`` times the log-ratio of a whole answer between policy and reference.

    Args:
        logprobs: Of the next tokens, with gradient, packed [T].
        entropy: Not used.
        input_: With ``cu_seqlens``, ``loss_mask`` at the tokens themselves and ``ref_logprobs``
            aligned as ``logprobs`` are.
        beta: How closely the policy is held to the reference.
        loss_type: "sigmoid" or "ipo".
    """
    cu_seqlens = input_["cu_seqlens"]
    policy_logps, ref_logps, lengths = dpo_pair_logratios(
        logprobs, input_["ref_logprobs"], cu_seqlens, input_["loss_mask"], whole_pairs(cu_seqlens)
    )
    logits = dpo_logits(policy_logps, ref_logps, lengths, loss_type)
    losses = dpo_preference_loss(logits, beta=beta, loss_type=loss_type)
    chosen, rejected = (beta * (policy_logps - ref_logps)).detach().unbind(1)
    record_pairs(
        loss=losses,
        chosen_reward=chosen,
        rejected_reward=rejected,
        reward_accuracy=(chosen > rejected).float(),
        reward_margin=chosen - rejected,
    )
    return (losses.sum() / max(len(losses), 1)).to(logprobs.dtype)


class DPOEngine(PairEngine):
    """Optimises the policy of an engine towards chosen answers.

    Data are lists of trajectories, chosen and rejected in turn, as ``dpo_modeling_collate_fn``
    makes them, or one padded batch of them. Each process passes its own pairs.

    Args:
        engine: Trains the policy, or only evaluates the reference.
    """

    name = "dpo"

    def compute_logp(self, data: list[TensorDict] | TensorDict) -> Tensor:
        """Return the next-token log-probabilities [B, L], 0.0 where no answer's token is next."""
        self.engine.eval()
        return self.engine.forward_batch(_aligned(data))

    def train_dpo(self, data: list[TensorDict] | TensorDict) -> dict[str, float]:
        """Take an optimiser step.

        Args:
            data: With ``ref_logprobs``, as ``compute_logp`` of the reference gives them.

        Returns:
            Statistics of the optimiser, and those of the loss as ``dpo/*``.
        """
        return self._train(_aligned(data), self._loss)

    def evaluate_dpo(self, batches: Iterable[list[TensorDict] | TensorDict]) -> dict[str, float]:
        """Return the statistics of the loss over all batches, as ``dpo-eval/*``."""
        return self._evaluate(map(_aligned, batches), self._loss)

    def _loss(self, logprobs: Tensor, entropy: Tensor, input_: TensorDict) -> Tensor:
        settings: Any = self.engine.config
        return compute_dpo_loss(
            logprobs,
            entropy,
            {**input_, "loss_mask": input_["answer_mask"]},
            beta=settings.beta,
            loss_type=settings.loss_type,
        )


def _aligned(data: list[TensorDict] | TensorDict) -> TensorDict:
    """Return a batch whose loss mask is at the tokens that predict, as train engines take it."""
    batch = concat_padded_tensors(data) if isinstance(data, list) else data
    mask = batch["loss_mask"]
    return {**batch, "answer_mask": mask, "loss_mask": shift_to_next_token(mask)}


def _collate(rows: list[dict[str, Any]]) -> TensorDict:
    return concat_padded_tensors(dpo_modeling_collate_fn(rows))


class DPOTrainer(PairTrainer):
    """Trains on preferences: ``DPOTrainer(config).train()`` inside a ``with`` block.

    Args:
        config: Of the experiment; ``config.ref`` describes the frozen reference model.
        train_dataset: Rows with ``chosen_ids``, ``rejected_ids`` and their loss masks; None loads
            ``config.train_dataset``. Rows that also have ``chosen_ref_logprobs`` and
            ``rejected_ref_logprobs``, one for each token and 0.0 for the last, as
            ``DPOEngine.compute_logp`` gives them, need no reference model.
        valid_dataset: The same, for evaluation.
    """

    config: DPOConfig
    columns = ("chosen_ids", "rejected_ids", "chosen_loss_mask", "rejected_loss_mask")
    collate = staticmethod(_collate)

    def __init__(
        self, config: DPOConfig, train_dataset: Any = None, valid_dataset: Any = None
    ) -> None:
        check_dpo_config(config)
        super().__init__(config, train_dataset, valid_dataset)
        self._policy = DPOEngine(self.actor)
        datasets = [self.train_dataset, self.valid_dataset]
        has_logprobs = all(rows is None or REF_COLUMNS[0] in rows[0] for rows in datasets)
        self.ref = None if has_logprobs else self._make_reference()
        self._reference = None if self.ref is None else DPOEngine(self.ref)

    def _make_reference(self) -> PackedTrainEngine:
        """Return the engine of the frozen policy that the trained one is compared with."""
        actor, ref = self.config.actor, self.config.ref
        if actor.path and not ref.path:
            raise ConfigError(
                f"ref.path is empty; name the model that actor.path {actor.path!r} is compared "
                "with, usually the same"
            )
        engine = make_colocated_engine(self.config, ref, "ref", self.tokenizer)
        check_tokenizer(self.tokenizer, engine.weights)
        if not ref.path and type(engine) is not type(self.actor):
            raise ConfigError(
                f"ref.path is empty: ref.backend {ref.backend!r} makes another model of run.model "
                f"than actor.backend {actor.backend!r}; name one checkpoint in both paths"
            )
        engine.initialize()
        if engine.data_parallel_rank != self.actor.data_parallel_rank:
            raise ConfigError(
                f"ref.backend {ref.backend!r} shares rows out in another way than actor.backend "
                f"{actor.backend!r}; give both as many data-parallel ranks (d)"
            )
        return engine

    def _usable_rows(self, rows: Any, key: str) -> Any:
        extra = REF_COLUMNS if REF_COLUMNS[0] in rows[0] else ()
        lm = self.weights.lm
        return usable_pairs(rows, (*self.columns, *extra), key, lm.max_length, lm.num_embeddings)

    def _update(self, batch: TensorDict) -> dict[str, Any]:
        stats = self._policy.train_dpo(self._with_reference(batch))
        return {**stats, **self._headline(stats, "dpo")}

    def _evaluate_on(self, batches: Iterable[TensorDict]) -> dict[str, Any]:
        stats = self._policy.evaluate_dpo(map(self._with_reference, batches))
        return {**stats, **self._headline(stats, "dpo-eval")}

    def _with_reference(self, batch: TensorDict) -> TensorDict:
        if "ref_logprobs" in batch:
            return batch
        assert self._reference is not None
        return {**batch, "ref_logprobs": self._reference.compute_logp(batch).cpu()}

    def _headline(self, stats: Mapping[str, float], scope: str) -> dict[str, float]:
        return {
            "loss": stats[f"{scope}/loss"],
            "accuracy": stats[f"{scope}/reward_accuracy"],
            "margin": stats[f"{scope}/reward_margin"],
        }
