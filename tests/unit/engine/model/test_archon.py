"""Archon models as engines take them: made, loaded, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from areal.api.cli_args import (
    ArchonEngineConfig,
    InferenceEngineConfig,
    ModelSpecConfig,
    OptimizerConfig,
    TrainEngineConfig,
)
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec
from areal.engine.loading.archon import load_archon_model, make_archon_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.cpu_kernels import FusedRmsNorm
from areal.engine.model.fused_linear import SiblingLinear
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.archon import ArchonTrainEngine
from areal.utils.character_tokenizer import character_tokenizer
from tests.tiny_archon import archon_of, known, tiny_archon
from tests.tiny_models import random_prompts, tiny_model

CPU = torch.device("cpu")
OPTIONS = ArchonEngineConfig()


def made(**fields: Any) -> torch.nn.Module:
    spec = ModelSpecConfig(hidden_size=16, num_hidden_layers=1, head_dim=8, **fields)
    tokenizer = character_tokenizer("0123456789+=")
    return make_archon_model(spec, tokenizer, torch.float32, CPU, OPTIONS).module


def load(path: Path | str, dtype: torch.dtype = torch.float32, **fields: Any) -> Any:
    return load_archon_model(str(path), dtype, CPU, OPTIONS, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path / "m")
    return tmp_path / "m"


# --- made and loaded --------------------------------------------------------------------------


def test_a_model_is_made_from_its_description_alone() -> None:
    torch.manual_seed(99)  # the global stream decides nothing
    state = torch.get_rng_state()
    first, again, other = made(), made(), made(seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    states = [model.state_dict() for model in (first, again, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])


@pytest.mark.parametrize("architecture", known("llama", "qwen2", "qwen3", "olmo2", "qwen3_moe"))
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("attn_type", ["varlen", "sdpa"])
def test_a_packed_batch_gives_the_logits_of_each_sequence(
    architecture: str, tied: bool, attn_type: str
) -> None:
    reference = tiny_model(architecture, tie_word_embeddings=tied)
    lm = archon_of(reference, attn_type)
    prompts = random_prompts([5, 9, 1])
    tokens = torch.tensor([t for prompt in prompts for t in prompt])
    positions = torch.cat([torch.arange(len(prompt)) for prompt in prompts])
    with torch.no_grad():
        rows = [reference(input_ids=torch.tensor([prompt])).logits[0] for prompt in prompts]
        found = lm.logits(tokens, positions, [5, 9, 1])
        kept = lm.logits(tokens, positions, [5, 9, 1], keep_N=torch.tensor([2, 14]))
    torch.testing.assert_close(found, torch.cat(rows), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(kept, found[[2, 14]], rtol=1e-5, atol=1e-6)
    assert lm.module.training is False


def test_tied_weights_are_one_parameter_after_loading(tmp_path: Path) -> None:
    tiny_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    module = load(tmp_path).module
    assert module.output.weight is module.tok_embeddings.weight
    assert len(list(module.parameters())) == len(list(tiny_model().parameters())) - 1


def test_a_checkpoint_is_loaded_in_the_asked_type(folder: Path) -> None:
    lm = load(folder, torch.bfloat16)
    assert lm.dtype == torch.bfloat16
    expected = tiny_model().get_input_embeddings().weight
    torch.testing.assert_close(
        lm.module.tok_embeddings.weight.float(), expected, rtol=1e-2, atol=1e-2
    )


def test_a_checkpoint_may_lend_its_sizes_alone(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    first, again, other = (
        load(folder, fresh_seed=seed).module.tok_embeddings.weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_settings_of_generation_survive(folder: Path, tmp_path: Path) -> None:
    settings = json.loads((folder / "generation_config.json").read_text())
    settings["temperature"] = 0.6
    settings["do_sample"] = True
    (folder / "generation_config.json").write_text(json.dumps(settings))
    target = tmp_path / "saved"
    target.mkdir()
    load(folder).write(target)
    assert json.loads((target / "generation_config.json").read_text())["temperature"] == 0.6
    config = json.loads((target / "config.json").read_text())
    assert (config["architectures"], config["dtype"]) == (["Qwen3ForCausalLM"], "float32")


def test_norms_and_siblings_take_the_fast_paths_of_a_cpu() -> None:
    block = tiny_archon().module.layers["0"]
    assert type(block.attention_norm) is FusedRmsNorm
    assert type(block.attention.q_norm) is FusedRmsNorm
    for name in ("attention.wq", "attention.wv", "feed_forward.w1", "feed_forward.w3"):
        assert type(block.get_submodule(name)) is SiblingLinear


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "./no/such/folder"])
def test_a_missing_checkpoint_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match=r"actor\.path"):
        load(path)


def test_a_folder_without_a_configuration_is_named(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match=folder.name):
        load(folder)


def test_a_model_type_without_an_archon_model_says_how_to_get_one(tmp_path: Path) -> None:
    tiny_model("helium").save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"scaffold add-archon-model helium.*qwen3.*fsdp:d1"):
        load(tmp_path)


def test_a_truncated_shard_is_named(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        load(folder)


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_a_checkpoint_with_other_weights_is_named(folder: Path, change: str) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    weights = load_file(folder / "model.safetensors")
    if change == "missing":
        del weights[name]
    elif change == "extra":
        weights[name + "_scale"] = torch.ones(1)
    else:
        weights[name] = weights[name][:-1].contiguous()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"layers\.1\.mlp\.up_proj"):
        load(folder)


def test_weights_of_another_model_are_not_read(folder: Path, tmp_path: Path) -> None:
    lm = load(folder)
    before = {name: tensor.clone() for name, tensor in lm.module.state_dict().items()}
    tiny_model(intermediate_size=32).save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match="does not fit the model"):
        lm.read(tmp_path / "other")
    assert all(torch.equal(t, before[n]) for n, t in lm.module.state_dict().items())
    shutil.rmtree(tmp_path / "other")
    with pytest.raises(ConfigError, match="other"):
        lm.read(tmp_path / "other")


def test_dropout_of_the_configuration_is_not_ignored() -> None:
    lm = archon_of(tiny_model(attention_dropout=0.1))
    fields: dict[str, Any] = {"backend": "archon:d1", "experiment_name": "e", "trial_name": "t"}
    config = TrainEngineConfig(**fields)
    ArchonTrainEngine(config, SharedWeights(lm)).initialize(None, None)  # is not trained
    spec = FinetuneSpec(total_train_epochs=1, dataset_size=1, train_batch_size=1)
    config = TrainEngineConfig(**fields, optimizer=OptimizerConfig())
    with pytest.raises(ConfigError, match=r"attention_dropout 0\.1.*disable_dropout"):
        ArchonTrainEngine(config, SharedWeights(lm)).initialize(None, spec)
    config.disable_dropout = True
    ArchonTrainEngine(config, SharedWeights(lm)).initialize(None, spec)


def test_attention_that_plans_lack_trains_and_does_not_generate() -> None:
    lm = tiny_archon()
    for block in lm.module.layers.values():
        block.attention.core.chunk = 5
    SharedWeights(lm)
    with pytest.raises(ConfigError, match=r"chunk.*embedded engine"):
        LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(lm))


def test_a_layer_that_mixes_tokens_by_itself_is_found_by_trying() -> None:
    lm = tiny_archon()
    block = lm.module.layers["1"]
    block.register_forward_hook(lambda _m, _a, out: out + out.mean(1, keepdim=True))
    with pytest.raises(ConfigError, match="sequence by sequence"):
        LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(lm))


@pytest.mark.slow  # what the compiler imports takes long
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # PyTorch's compiler
def test_compiled_blocks_train_and_do_not_generate() -> None:
    lm = tiny_archon()
    lm.options = ArchonEngineConfig(enable_compile=True)
    config = TrainEngineConfig(backend="archon:d1", archon=lm.options)
    ArchonTrainEngine(config, SharedWeights(lm)).initialize(None, None)
    blocks = lm.module.layers.values()
    # What it compiles to is the compiler's affair, and takes minutes.
    assert all(block._compiled_call_impl is not None for block in blocks)
    with pytest.raises(ConfigError, match="enable_compile"):
        LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(lm))


def test_generation_ends_where_frequencies_would_change() -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    lm = archon_of(tiny_model(rope_parameters=rope, max_position_embeddings=64))
    assert lm.max_length == 64
