"""Reward models in one process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from areal.api.cli_args import RWConfig, load_expr_config
from areal.trainer.runtime import load_rows, make_tokenizer
from areal.trainer.rw import RWTrainer, compute_rw_loss, rw_modeling_collate_fn
from areal.utils import stats_tracker
from tests.tiny_archon import BACKENDS
from tests.tiny_encoder import registered_encoder
from tests.tiny_runs import pairs_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")
VALID = {
    "path": "tests.tiny_runs.get_digits_rw_dataset",
    "type": "rw",
    "batch_size": 16,
    "dataset_kwargs": {"size": 50},
}


def trained(path: Path, *overrides: str, **kwargs: Any) -> RWTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], RWConfig)
    if config.valid_dataset is not None:
        tokenizer = make_tokenizer(config, config.actor)
        kwargs["valid_dataset"] = load_rows(config.valid_dataset, tokenizer)
    with RWTrainer(config, **kwargs) as trainer:
        trainer.train()
    return trainer


@pytest.fixture
def clean_statistics() -> Iterator[None]:
    stats_tracker.export_all()
    yield
    stats_tracker.export_all()


@pytest.mark.usefixtures("clean_statistics")
def test_the_loss_is_the_formula_and_its_statistics_are_recorded() -> None:
    scores = torch.tensor([9.0, 1.0, 9.0, 9.0, -0.5, 3.0, 2.0, 4.0], requires_grad=True)
    # Pairs: last tokens 1 and 4, then one whose second side is empty, then 6 and 7.
    data = {"cu_seqlens": torch.tensor([0, 2, 5, 6, 6, 7, 8], dtype=torch.int32)}
    loss = compute_rw_loss(scores, data)
    expected = [math.log1p(math.exp(-(a - b))) for a, b in ((1.0, -0.5), (2.0, 4.0))]
    assert loss.item() == pytest.approx(sum(expected) / 2, rel=1e-6)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.nonzero().flatten().tolist() == [1, 4, 6, 7]
    found = stats_tracker.export_all()
    assert found == {
        "n_pairs": 2.0,
        "loss": pytest.approx(sum(expected) / 2, rel=1e-6),
        "correct_ratio": 0.5,
        "pos_score": 1.5,
        "neg_score": 1.75,
    }


def test_rows_become_chosen_and_rejected_in_turn() -> None:
    chosen, rejected = rw_modeling_collate_fn([{"chosen_ids": [1, 2, 3], "rejected_ids": [1, 4]}])
    assert chosen["input_ids"].tolist() == [[1, 2, 3]]
    assert rejected["input_ids"].tolist() == [[1, 4]]
    assert chosen.keys() == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reward_model_learns_and_transformers_reads_it(tmp_path: Path, backend: str) -> None:
    path = pairs_yaml(tmp_path, "rw", total_train_steps=20, valid_dataset=VALID)
    trainer = trained(path, f"actor.backend={backend}")
    found = trainer._evaluate()
    assert found["accuracy"] == found["rw-eval/correct_ratio"] > 0.95
    assert trainer.num_sequences == 20 * 4 * 2
    folder = tmp_path / "e" / "t" / "model"
    model: Any = AutoModelForTokenClassification.from_pretrained(folder)
    assert model.config.num_labels == 1
    margins = []
    for row in trainer.valid_dataset:
        with torch.no_grad():
            chosen, rejected = (
                float(model(input_ids=torch.tensor([row[side]])).logits[0, -1, 0])
                for side in ("chosen_ids", "rejected_ids")
            )
        margins.append(chosen - rejected)
    losses = [math.log1p(math.exp(-margin)) for margin in margins]
    assert found["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert found["margin"] == pytest.approx(sum(margins) / len(margins), rel=1e-5)


def test_an_encoder_learns_which_answers_are_preferred(tmp_path: Path) -> None:
    path = pairs_yaml(tmp_path, "rw", total_train_steps=20, valid_dataset=VALID)
    with registered_encoder():
        trainer = trained(path, "actor.backend=archon:d1", "run.model.architecture=modernbert")
        found = trainer._evaluate()
    assert found["accuracy"] > 0.95
    folder = tmp_path / "e" / "t" / "model"
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert model.config.num_labels == 1
    margins = []
    for row in trainer.valid_dataset:
        with torch.no_grad():
            chosen, rejected = (
                float(model(input_ids=torch.tensor([row[side]])).logits)
                for side in ("chosen_ids", "rejected_ids")
            )
        margins.append(chosen - rejected)
    assert found["margin"] == pytest.approx(sum(margins) / len(margins), rel=1e-5)


def test_micro_batches_keep_pairs_and_change_only_the_last_bits(tmp_path: Path) -> None:
    for name, options in (("one", []), ("many", ["actor.mb_spec.max_tokens_per_mb=8"])):
        trained(pairs_yaml(tmp_path / name, "rw"), *options)
    one, many = (train_stats(tmp_path / name) for name in ("one", "many"))
    for a, b in zip(one, many, strict=True):
        # A dropout in the head, transformers' default, would differ far more.
        for key in ("loss", "margin", "grad_norm"):
            assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-6)
        assert a["rw/n_pairs"] == b["rw/n_pairs"] == 4
