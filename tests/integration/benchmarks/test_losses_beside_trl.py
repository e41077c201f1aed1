"""Losses of our engine beside those of TRL's trainers, on the same weights and the same batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl", reason="the extra bench of areal-lite has TRL")
import trl
from datasets import Dataset

from areal.api.cli_args import PPOActorConfig, RunConfig, TrainEngineConfig
from areal.dataset.arithmetic import get_arithmetic_sft_dataset
from areal.trainer.advantages import shift_to_next_token
from areal.trainer.ppo.policy_loss import build_policy_loss
from areal.trainer.sft import num_loss_tokens, sft_loss_fn
from areal.utils.data import collate_samples_to_list, concat_padded_tensors
from benchmarks.pairs import _engine, _optimizer, _trl_options
from benchmarks.reference_model import make_reference, plain_transformers_copy

# TRL warns of options of its own.
pytestmark = pytest.mark.filterwarnings("default")

NUM_ROWS = 8
BOUND = 1e-6
LONGEST = 16  # of an answer; what Dr.GRPO divides by

Sides = tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def sides() -> Sides:
    """Our engine, transformers' copy of its model, and the tokenizer."""
    weights, tokenizer = make_reference()
    config = TrainEngineConfig(backend="fsdp:d1", optimizer=_optimizer())
    return _engine(config, weights), plain_transformers_copy(weights.module), tokenizer


@pytest.fixture(scope="module")
def rows(sides: Sides) -> list[dict[str, Any]]:
    """Prompts and answers of several lengths."""
    return list(get_arithmetic_sft_dataset(tokenizer=sides[2], size=NUM_ROWS, unsure_share=0.5))


@pytest.fixture(scope="module")
def batch(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """The rows as our engine takes them, with what a rollout adds."""
    made = concat_padded_tensors(collate_samples_to_list(rows))
    shape = made["input_ids"].shape
    noise = torch.Generator().manual_seed(0)
    advantages = torch.randn(NUM_ROWS, 1, generator=noise).expand(shape)
    return {
        **made,
        "loss_mask": shift_to_next_token(made["loss_mask"]),
        "advantages": advantages.contiguous(),
        # Of a vocabulary of two dozen tokens, near what the model gives them.
        "logprobs": -3.0 + 0.5 * torch.randn(shape, generator=noise),
        "ref_logp": -3.0 + 0.5 * torch.randn(shape, generator=noise),
    }


def test_the_supervised_loss_is_that_of_trl(
    sides: Sides, rows: list[dict[str, Any]], batch: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    engine, model, tokenizer = sides
    trainer = trl.SFTTrainer(
        model=model,
        args=trl.SFTConfig(output_dir=str(tmp_path), **_trl_options()),
        train_dataset=Dataset.from_list([{"prompt": "1+1=", "completion": "2"}]),
        processing_class=tokenizer,
    )
    theirs = [
        {
            "input_ids": row["input_ids"],
            "labels": [
                token if kept else -100
                for token, kept in zip(row["input_ids"], row["loss_mask"], strict=True)
            ],
        }
        for row in rows
    ]
    with torch.no_grad():
        expected = trainer.compute_loss(model.eval(), trainer.data_collator(theirs))
    found = engine.eval_batch(batch, sft_loss_fn, num_loss_tokens)
    assert float(found) == pytest.approx(float(expected), abs=BOUND)


@pytest.fixture(scope="module")
def grpo(sides: Sides, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """TRL's trainer, whose options are changed from test to test."""
    _, model, tokenizer = sides
    folder = str(tmp_path_factory.mktemp("trl"))
    options = _trl_options() | {"epsilon_high": 0.28, "max_completion_length": LONGEST}
    return trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(output_dir=folder, **options),
        train_dataset=Dataset.from_list([{"prompt": "1+1="}] * NUM_ROWS),
        processing_class=tokenizer,
    )


def as_trl(rows: list[dict[str, Any]], batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns a batch in TRL's form: prompts padded on the left, answers on the right."""
    lengths = [row["loss_mask"].index(1) for row in rows]
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    prompts = [row[:n].flip(0) for row, n in zip(ids, lengths, strict=True)]
    made = {
        "prompt_ids": _padded(prompts).flip(1),
        "prompt_mask": _padded([torch.ones_like(each) for each in prompts]).flip(1),
        "completion_ids": _padded([row[n:] for row, n in zip(ids, lengths, strict=True)]),
    }
    for theirs, ours in (
        ("completion_mask", "loss_mask"),
        ("old_per_token_logps", "logprobs"),
        ("ref_per_token_logps", "ref_logp"),
    ):
        # What predicts the first token of an answer is one place before it.
        values = zip(batch[ours], ids, lengths, strict=True)
        made[theirs] = _padded([row[n - 1 : len(own) - 1] for row, own, n in values])
    made["num_items_in_batch"] = made["completion_mask"].sum()
    return made | {"advantages": batch["advantages"][:, 0]}


def _padded(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.mark.parametrize(
    ("theirs", "aggregation", "actor"),
    [
        ({"loss_type": "grpo"}, "sequence_mean", {}),
        ({"loss_type": "grpo", "beta": 0.1}, "sequence_mean", {"kl_ctl": 0.1}),
        ({"loss_type": "bnpo"}, "token_mean", {}),
        ({"loss_type": "dapo"}, "token_mean", {}),
        ({"loss_type": "dr_grpo"}, "sequence_mean_token_sum_norm", {}),
        (
            {"loss_type": "grpo", "importance_sampling_level": "sequence"},
            "sequence_mean",
            {"importance_sampling_level": "sequence"},
        ),
        (
            {"loss_type": "cispo", "epsilon_high": 1.28},
            "token_mean",
            {"use_cispo_loss": True, "eps_clip": 1.0},
        ),
        ({"loss_type": "sapo"}, "sequence_mean", {"use_sapo_loss": True}),
    ],
    ids=["grpo", "grpo-kl", "bnpo", "dapo", "dr_grpo", "gspo", "cispo", "sapo"],
)
def test_policy_losses_are_those_of_trl(
    sides: Sides,
    grpo: Any,
    rows: list[dict[str, Any]],
    batch: dict[str, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    theirs: dict[str, Any],
    aggregation: str,
    actor: dict[str, Any],
) -> None:
    engine, model, _ = sides
    for name, value in theirs.items():
        monkeypatch.setattr(grpo, name, value)
    # GRPO's own penalty, not that of DeepSeek-V3.2, which newer TRL takes unasked.
    monkeypatch.setattr(grpo.args, "use_bias_correction_kl", False, raising=False)
    with torch.no_grad():
        expected = grpo.compute_loss(model.eval(), as_trl(rows, batch))
    options = {"kl_ctl": 0.0, "kl_estimator": "k3", "eps_clip_higher": 0.28, **actor}
    options |= {"sapo_tau_pos": grpo.args.sapo_temperature_pos}
    options |= {"sapo_tau_neg": grpo.args.sapo_temperature_neg}
    loss_fn, weight_fn = build_policy_loss(
        PPOActorConfig(backend="fsdp:d1", use_decoupled_loss=False, **options),
        RunConfig(loss_aggregation=aggregation, kl_placement="loss"),
        LONGEST,
    )
    found = engine.eval_batch(batch, loss_fn, weight_fn)
    assert float(expected) != pytest.approx(0.0, abs=1e-3)
    assert float(found) == pytest.approx(float(expected), abs=BOUND)
