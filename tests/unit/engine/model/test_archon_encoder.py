"""Encoders as reward models: loaded, run, saved, trained, and refused where they cannot serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
)

from areal.api.cli_args import ArchonEngineConfig, PPOCriticConfig
from areal.api.errors import ConfigError
from areal.engine.loading.archon import load_archon_model
from areal.engine.loading.huggingface import load_model
from areal.engine.model.archon import ArchonCausalLM
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.trainer.ppo.critic import PPOCritic
from tests.tiny_encoder import registered_encoder, tiny_encoder_config

CPU = torch.device("cpu")
LENGTHS = (9, 1, 5)


@pytest.fixture(autouse=True)
def spec() -> Iterator[Any]:
    with registered_encoder() as found:
        yield found


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    tokens = torch.randint(1, 40, (sum(LENGTHS),))
    return tokens, torch.cat([torch.arange(length) for length in LENGTHS])


def load(folder: Path, **options: Any) -> ArchonCausalLM:
    return load_archon_model(str(folder), torch.float32, CPU, ArchonEngineConfig(), **options)


def saved(folder: Path, kind: Any = ModernBertForSequenceClassification, **fields: Any) -> Any:
    torch.manual_seed(0)
    model = kind(tiny_encoder_config(**fields)).eval()
    model.save_pretrained(folder)
    return model


def scores_of(model: Any, tokens: Tensor) -> Tensor:
    """Returns what transformers gives each sequence by itself."""
    with torch.no_grad():
        return torch.cat([model(input_ids=row[None]).logits for row in tokens.split(LENGTHS)])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_token_has_the_score_that_transformers_gives_its_sequence(
    tmp_path: Path, batch: tuple[Tensor, Tensor], pooling: str
) -> None:
    wanted = scores_of(saved(tmp_path, classifier_pooling=pooling), batch[0])
    lm = load(tmp_path, is_critic=True)
    with torch.no_grad():
        found = lm.logits(*batch, LENGTHS)
        last = lm.logits(*batch, LENGTHS, keep_N=torch.tensor([8, 9, 14]))
    assert (last - wanted).abs().max() < 1e-5 * wanted.std()
    assert torch.equal(found, last.repeat_interleave(torch.tensor(LENGTHS), dim=0))


def test_a_checkpoint_of_masked_tokens_gets_a_new_score_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = saved(tmp_path, ModernBertForMaskedLM)
    lm = load(tmp_path, is_critic=True)
    state, own = lm.module.state_dict(), model.state_dict()
    assert torch.equal(state["head_dense.weight"], own["head.dense.weight"])
    assert torch.equal(state["score.bias"], torch.zeros(1))
    assert float(state["score.weight"].std()) == pytest.approx(32**-0.5, rel=0.3)
    assert "score.bias, score.weight: initialised afresh" in caplog.text


def test_names_that_bert_had_in_tensorflow_are_read(
    tmp_path: Path, batch: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scores_of(saved(tmp_path), batch[0])
    lm = load(tmp_path, is_critic=True)
    names = {
        rule.hub: rule.hub.replace("final_norm", "LayerNorm")
        for rule in lm.adapter.RULES
        if "final_norm" in rule.hub
    }
    assert names
    rules = [
        type(rule)(names[rule.hub], rule.archon) if rule.hub in names else rule
        for rule in lm.adapter.RULES
    ]
    monkeypatch.setattr(type(lm.adapter), "RULES", tuple(rules))
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.LayerNorm.gamma"] = weights.pop("model.final_norm.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = load(tmp_path, is_critic=True).logits(*batch, LENGTHS, keep_N=torch.tensor([8, 9, 14]))
    assert (found - wanted).abs().max() < 1e-5 * wanted.std()


def test_transformers_reads_what_is_saved(tmp_path: Path) -> None:
    model = saved(tmp_path / "a")
    lm = load(tmp_path / "a", is_critic=True)
    (tmp_path / "b").mkdir()
    lm.write(tmp_path / "b")
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "b").eval()
    assert again.config.num_labels == 1
    wanted, found = model.state_dict(), again.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_an_encoder_has_no_logits_no_values_and_no_parts_of_a_sequence(
    tmp_path: Path, spec: Any
) -> None:
    saved(tmp_path)
    with pytest.raises(ConfigError, match=r"an encoder, which gives scores .*is_critic=True"):
        load(tmp_path)
    lm = load(tmp_path, is_critic=True)
    engine: Any = SimpleNamespace(lm=lm, config=SimpleNamespace(is_critic=True))
    with pytest.raises(ConfigError, match="a value must not know the answer"):
        PPOCritic(PPOCriticConfig(is_critic=True), engine)
    with pytest.raises(ConfigError, match="causal=False"):
        lm.require_plans()
    for split in ("tp", "cp"):
        dims = ArchonParallelDims(**{split: 2}, world_size=2, device_type="cpu")
        with pytest.raises(ConfigError, match="scores whole sequences"):
            spec.parallelize_fn(lm.module, dims)


@pytest.mark.parametrize("is_critic", [False, True])
def test_the_other_backend_names_the_one_for_encoders(tmp_path: Path, is_critic: bool) -> None:
    saved(tmp_path)
    with pytest.raises(ConfigError, match=r"modernbert is an encoder.*archon:d1"):
        load_model(str(tmp_path), torch.float32, CPU, is_critic=is_critic)
