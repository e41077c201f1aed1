"""Engines whose model has a value for each token, in the place of logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from areal.api.cli_args import OptimizerConfig, TrainEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.engine.fsdp_engine import FSDPEngine
from areal.engine.training.engine import PackedTrainEngine
from areal.experimental.engine.archon_engine import ArchonEngine
from areal.utils.functional import ppo_critic_loss_fn
from tests.tiny_archon import BACKENDS
from tests.tiny_models import random_prompts, tiny_model

LENGTHS = [9, 4, 6]
ENGINES: dict[str, Any] = {"archon:d1": ArchonEngine, "fsdp:d1": FSDPEngine}


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    return str(path)


def critic(path: str, backend: str, **settings: Any) -> PackedTrainEngine:
    config = TrainEngineConfig(
        experiment_name="e",
        trial_name="t",
        path=path,
        backend=backend,
        is_critic=True,
        disable_dropout=True,
        optimizer=OptimizerConfig(lr=0.03, warmup_steps=0, weight_decay=0.0),
        **settings,
    )
    engine: PackedTrainEngine = ENGINES[backend](config)
    engine.initialize(None, FinetuneSpec(1, 100, 1))
    return engine


def batch() -> dict[str, Tensor]:
    width = max(LENGTHS)
    ids, mask = torch.zeros(3, width, dtype=torch.int64), torch.zeros(3, width, dtype=torch.bool)
    for row, tokens in enumerate(random_prompts(LENGTHS)):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), True
    loss_mask = mask.clone()
    loss_mask[:, 0] = False
    return {"input_ids": ids, "attention_mask": mask, "loss_mask": loss_mask}


def values_of(engine: PackedTrainEngine) -> Tensor:
    engine.eval()
    return engine.forward_batch(batch())


def values_of_transformers(path: str) -> Tensor:
    """Returns what transformers' own model says, one sequence at a time."""
    model = AutoModelForTokenClassification.from_pretrained(path).eval()
    data = batch()
    out = torch.zeros(data["input_ids"].shape)
    for row, length in enumerate(LENGTHS):
        ids = data["input_ids"][row : row + 1, :length]
        out[row, :length] = model(input_ids=ids).logits[0, :, 0].detach()
    return out * data["loss_mask"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_language_model_gets_the_same_new_head_each_time(
    language_model: str, backend: str
) -> None:
    torch.manual_seed(0)
    one = values_of(critic(language_model, backend))
    torch.manual_seed(1)
    assert torch.equal(values_of(critic(language_model, backend)), one)
    assert float(one.std()) > 0.1
    # The other backend's head is the same, and so are its values.
    other = next(each for each in BACKENDS if each != backend)
    torch.testing.assert_close(values_of(critic(language_model, other)), one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_critic_is_saved_as_transformers_reads_it(
    language_model: str, backend: str, tmp_path: Path
) -> None:
    engine, folder = critic(language_model, backend), str(tmp_path / "critic")
    learn(engine, steps=3)
    engine.save(SaveLoadMeta(path=folder, weight_format="hf", with_optim=False))
    config = json.loads((tmp_path / "critic" / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForTokenClassification"]
    expected = values_of(engine)
    torch.testing.assert_close(values_of_transformers(folder), expected, rtol=1e-4, atol=1e-5)
    for again in BACKENDS:
        found = values_of(critic(folder, again))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def learn(engine: PackedTrainEngine, steps: int) -> list[float]:
    """Trains towards the position of each token, and returns the losses."""
    data = batch()
    data["returns"] = torch.arange(9).float().expand(3, 9) / 4
    losses: list[float] = []

    def loss_fn(values: Tensor, input_data: dict[str, Any]) -> Tensor:
        returns, mask = input_data["returns"], input_data["loss_mask"]
        loss, _ = ppo_critic_loss_fn(values, values.detach(), returns, 1e9, mask)
        losses.append(float(loss.detach()))
        return loss

    engine.train()
    for _ in range(steps):
        engine.train_batch(data, loss_fn, lambda mb: mb["loss_mask"].sum())
    return losses


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_learn_their_targets(language_model: str, backend: str) -> None:
    losses = learn(critic(language_model, backend), steps=40)
    assert losses[0] > 0.3
    assert losses[-1] < 0.05


def test_a_sequence_classifier_has_a_head_without_a_bias(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "lm")
    model: Any = AutoModelForSequenceClassification.from_pretrained(tmp_path / "lm", num_labels=1)
    model.config.pad_token_id = 0
    model.save_pretrained(tmp_path / "scores")
    engine = critic(str(tmp_path / "scores"), "fsdp:d1")
    learn(engine, steps=3)
    engine.save(SaveLoadMeta(path=str(tmp_path / "out"), weight_format="hf", with_optim=False))
    again: Any = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    data, values = batch(), values_of(engine)
    for row, length in enumerate(LENGTHS):
        score = again(input_ids=data["input_ids"][row : row + 1, :length]).logits[0, 0]
        torch.testing.assert_close(values[row, length - 1], score, rtol=1e-4, atol=1e-5)


def test_a_head_with_a_bias_is_kept(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "lm")
    model: Any = AutoModelForTokenClassification.from_pretrained(tmp_path / "lm", num_labels=1)
    with torch.no_grad():
        model.score.bias.fill_(3.0)
    model.save_pretrained(tmp_path / "critic")
    path = str(tmp_path / "critic")
    torch.testing.assert_close(
        values_of(critic(path, "fsdp:d1")), values_of_transformers(path), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(ConfigError, match=r"unknown: score\.bias"):
        critic(path, "archon:d1")


def test_a_model_without_a_head_for_tokens_is_refused(tmp_path: Path) -> None:
    tiny_model("opt").save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="no model for token classification of type 'opt'"):
        critic(str(tmp_path), "fsdp:d1")


def test_a_critic_that_lacks_more_than_its_head_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tiny_model().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks weights: model\.norm\.weight"):
        critic(str(tmp_path), "fsdp:d1")
