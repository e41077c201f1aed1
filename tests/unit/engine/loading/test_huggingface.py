"""Which models the engines take, and that what they cannot serve is refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from areal.api.cli_args import ModelSpecConfig
from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import load_model, make_model, prepare_model, resolve_dtype
from areal.utils.character_tokenizer import character_tokenizer
from tests.tiny_models import tiny_model

CPU = torch.device("cpu")
CHARACTERS = "0123456789+="
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 32,
}


def made(**fields: Any) -> torch.nn.Module:
    spec = ModelSpecConfig(**SMALL | fields)
    return make_model(spec, character_tokenizer(CHARACTERS), torch.float32, CPU)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "mistral", "gemma3_text"])
def test_a_model_is_made_from_its_description_alone(architecture: str) -> None:
    model = made(architecture=architecture)
    config: Any = model.config
    assert config.vocab_size == 3 + len(CHARACTERS)
    assert (config.hidden_size, config.num_hidden_layers) == (16, 1)
    torch.manual_seed(99)  # the global stream decides nothing
    again, other = made(architecture=architecture), made(architecture=architecture, seed=2)
    states = [m.state_dict() for m in (model, again, other)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert any(not torch.equal(states[0][k], states[2][k]) for k in states[0])


def test_making_a_model_leaves_the_random_stream_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    made()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("architecture", ["no_such_thing", "t5", "bloom"])
def test_an_architecture_that_cannot_be_served_is_named(architecture: str) -> None:
    with pytest.raises(ConfigError, match=architecture):
        made(architecture=architecture)


@pytest.mark.parametrize(
    ("architecture", "what"),
    [
        ("lfm2", "conv"),  # layers that mix neighbouring tokens without attention
        ("llama4_text", "chunked"),
        ("nemotron", "attention_plan"),  # ignores the attention function in its eager layers
    ],
)
def test_a_model_that_would_compute_something_else_is_refused(architecture: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        prepare_model(tiny_model(architecture), CPU)


@pytest.mark.parametrize("architecture", ["bert", "doge"])
def test_a_model_whose_own_attention_differs_is_found_by_trying(architecture: str) -> None:
    with pytest.raises(ConfigError, match="sequence by sequence"):
        prepare_model(tiny_model(architecture), CPU)


@pytest.mark.parametrize(
    "architecture", ["llama", "qwen2", "mistral", "gemma3_text", "qwen3_moe", "gpt2"]
)
def test_trying_a_model_leaves_it_as_it_was(architecture: str) -> None:
    model = tiny_model(architecture).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    prepare_model(model, CPU)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_checkpoint_is_loaded_in_the_asked_type(tmp_path: Path) -> None:
    source = tiny_model("llama")
    source.save_pretrained(tmp_path)
    model = load_model(str(tmp_path), torch.bfloat16, CPU)
    weight = model.get_input_embeddings().weight
    assert weight.dtype == torch.bfloat16
    torch.testing.assert_close(
        weight.float(), source.get_input_embeddings().weight, rtol=1e-2, atol=1e-2
    )


def test_a_checkpoint_may_lend_its_sizes_alone(tmp_path: Path) -> None:
    source = tiny_model("llama")
    source.config.save_pretrained(tmp_path)  # no weights at all
    models = [load_model(str(tmp_path), torch.float32, CPU, fresh_seed=s) for s in (1, 1, 2)]
    first, again, other = (m.get_input_embeddings().weight for m in models)
    assert first.shape == source.get_input_embeddings().weight.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("path", ["", "./no/such/folder"])
def test_a_missing_checkpoint_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match=r"actor\.path"):
        load_model(path, torch.float32, CPU)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=tmp_path.name):
        load_model(str(tmp_path), torch.float32, CPU)


def test_a_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ConfigError, match=tmp_path.name):
        load_model(str(tmp_path), torch.float32, CPU)


def test_a_checkpoint_without_some_weights_is_named(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"layers\.1\.mlp\.up_proj"):
        load_model(str(tmp_path), torch.float32, CPU)


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("auto", "cpu", torch.float32),
        ("auto", "cuda", torch.bfloat16),
        ("bfloat16", "cpu", torch.bfloat16),
        ("float16", "cuda", torch.float16),
    ],
)
def test_the_type_of_parameters(name: str, device: str, expected: torch.dtype) -> None:
    assert resolve_dtype(name, torch.device(device)) == expected
