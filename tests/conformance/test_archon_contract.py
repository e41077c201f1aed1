"""Does code that has the contract's names alone build, load, run and export every model?"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from archon_probe.measure.tiny import explicit_values, tiny_config
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.activations import ACT2FN

import areal.experimental.models.archon as archon
from areal.api.errors import ConfigError
from areal.experimental.models.archon import (
    ARCHON_MODELS,
    generate_llm_fqn_per_model_part,
    get_model_spec,
    get_supported_model_types,
)
from areal.experimental.models.archon.layers.feed_forward import LEARNED_ACTIVATIONS
from areal.experimental.models.archon.state_dict import load_checkpoint
from tests.conformance.registries import ROOT

EXPORTS = (
    "ArchonParallelDims",
    "BaseStateDictAdapter",
    "ExpertParallel",
    "ExpertTensorParallel",
    "MoEConversionState",
    "MoEWeightConverter",
    "ModelSpec",
    "TensorParallel",
    "apply_expert_parallel",
    "generate_llm_fqn_per_model_part",
    "get_model_spec",
    "get_supported_model_types",
    "is_supported_model",
    "pipeline_llm",
    "pipeline_module_split",
)
LENGTHS = (7, 12, 3)


def packed(vocab_size: int) -> tuple[Tensor, Tensor, Tensor, int]:
    torch.manual_seed(1)
    tokens = torch.randint(3, vocab_size, (1, sum(LENGTHS)))
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    return tokens, positions, torch.tensor([0, *LENGTHS]).cumsum(0).int(), max(LENGTHS)


def built(model_type: str, **choices: Any) -> tuple[Any, Any, Any]:
    """Returns a tiny configuration, the model of it, and the adapter."""
    config = tiny_config(model_type)
    spec = get_model_spec(model_type)
    args = spec.model_args_class.from_hf_config(config, **choices)
    model = spec.model_class(args)
    model.init_weights()
    model.init_buffers(buffer_device="cpu")
    return config, model, spec.state_dict_adapter_class(config, hf_assets_path=None)


@pytest.mark.parametrize("name", EXPORTS)
def test_the_package_exports_a_name(name: str) -> None:
    assert name in archon.__all__
    assert getattr(archon, name).__name__ == name


def test_exports_load_torch_when_they_are_asked_for() -> None:
    code = (
        "import sys, areal.experimental.models.archon as archon\n"
        "assert 'torch' not in sys.modules\n"
        "archon.ArchonParallelDims\n"
        "assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


@pytest.mark.parametrize("model_type", sorted(get_supported_model_types()))
def test_a_model_folder_exports_its_classes(model_type: str) -> None:
    spec = get_model_spec(model_type)
    folder = sys.modules[ARCHON_MODELS[model_type].partition(".spec:")[0]]
    own = {spec.model_args_class, spec.model_class, spec.state_dict_adapter_class}
    assert {getattr(folder, name) for name in folder.__all__} == own
    prefix = spec.model_class.__name__.removesuffix("Model")
    ends = ("ModelArgs", "Model", "StateDictAdapter")
    assert set(folder.__all__) == {prefix + end for end in ends}


@pytest.mark.parametrize("is_critic", [False, True])
@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_a_model_is_built_run_and_exported_by_the_contract(
    model_type: str, is_critic: bool
) -> None:
    config, model, adapter = built(
        model_type, is_critic=is_critic, attn_type="sdpa", router_dtype=torch.float32
    )
    assert (model.output is None) == is_critic
    assert (model.score is None) == (not is_critic)
    width = 1 if is_critic else config.vocab_size
    with torch.no_grad():
        out = model(*packed(config.vocab_size))
    assert out.shape == (1, sum(LENGTHS), width)
    state = model.state_dict()
    hub = adapter.to_hf(state)
    assert ("score.weight" in hub) == is_critic
    back = adapter.from_hf(hub)
    assert back.keys() == state.keys()
    # Biases that pick experts may have no place on the Hub of a model that nobody loads them into.
    assert all(torch.equal(back[name], state[name]) for name, _ in model.named_parameters())
    single: dict[str, Tensor] = {}
    for name, tensor in state.items():
        single.update(adapter.convert_single_to_hf(name, tensor))
    assert single.keys() == hub.keys()


@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_a_checkpoint_loads_by_the_contract(model_type: str, tmp_path: Path) -> None:
    config, model, _ = built(model_type, is_critic=False, attn_type="varlen", router_dtype=None)
    torch.manual_seed(0)
    theirs = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    theirs.save_pretrained(tmp_path)
    adapter = get_model_spec(model_type).state_dict_adapter_class(config, str(tmp_path))
    assert adapter.fqn_to_index_mapping is None  # one file has no index
    model.load_state_dict(adapter.from_hf(load_file(tmp_path / "model.safetensors")))
    tokens, *rest = packed(config.vocab_size)
    with torch.no_grad():
        wanted = torch.cat([theirs(row).logits for row in tokens.split(LENGTHS, dim=1)], dim=1)
        found = model(tokens, *rest)
    assert (found - wanted).abs().max() < 1e-5 * wanted.std()


@pytest.mark.parametrize("is_critic", [False, True])
@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_stages_of_a_pipeline_have_all_of_a_model(model_type: str, is_critic: bool) -> None:
    _, model, adapter = built(model_type, is_critic=is_critic)
    layers = model.model_args.n_layers
    parts = generate_llm_fqn_per_model_part(2, layers, is_critic=is_critic)
    modules = {name for name, _ in model.named_modules()}
    assert {name for part in parts for name in part} <= modules
    hub: set[str] = set()
    for part in parts:
        state = {
            name: tensor
            for name, tensor in model.state_dict().items()
            if any(name.startswith(f"{prefix}.") for prefix in part)
        }
        hub |= adapter.to_hf(state).keys()
    assert hub == adapter.to_hf(model.state_dict()).keys()


@pytest.mark.parametrize("head_dim", [8, 24])
@pytest.mark.parametrize("model_type", ["llama", "olmo2", "qwen2", "qwen3_moe"])
def test_a_head_size_counts_whether_or_not_the_class_declares_it(
    model_type: str, head_dim: int, tmp_path: Path
) -> None:
    check_logits(model_type, tmp_path, head_dim=head_dim)


def test_dense_layers_among_experts_have_the_activation_of_the_configuration(
    tmp_path: Path,
) -> None:
    check_logits("qwen3_moe", tmp_path, mlp_only_layers=[1], hidden_act="gelu")


def check_logits(model_type: str, folder: Path, **changes: Any) -> None:
    """Compares logits with those of transformers, under a tiny configuration with changes."""
    small = tiny_config(model_type)
    config = type(small)(**{**explicit_values(small), **changes})
    theirs = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    theirs.save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    spec = get_model_spec(model_type)
    model = spec.model_class(spec.model_args_class.from_hf_config(config))
    model.init_buffers("cpu")
    adapter = spec.state_dict_adapter_class(config)
    model.load_state_dict(adapter.from_hf(load_file(folder / "model.safetensors")))
    tokens, *rest = packed(config.vocab_size)
    with torch.no_grad():
        wanted = torch.cat([theirs(row).logits for row in tokens.split(LENGTHS, dim=1)], dim=1)
        found = model(tokens, *rest)
    assert (found - wanted).abs().max() < 1e-5 * wanted.std()


@pytest.mark.parametrize("activation", sorted(LEARNED_ACTIVATIONS))
@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_an_activation_with_parameters_is_refused_before_anything_is_loaded(
    model_type: str, activation: str
) -> None:
    small = tiny_config(model_type)
    fields = {"hidden_act", "hidden_activation"} & vars(small).keys()
    config = type(small)(**{**explicit_values(small), **dict.fromkeys(fields, activation)})
    spec = get_model_spec(model_type)
    theirs = AutoModelForCausalLM.from_config(config)
    if not any(isinstance(each, type(ACT2FN[activation])) for each in theirs.modules()):
        # What transformers does not read either is no reason to refuse.
        assert spec.model_args_class.from_hf_config(config) is not None
        return
    with pytest.raises(ConfigError, match=f"the activation {activation} has parameters"):
        spec.model_args_class.from_hf_config(config)


def test_shared_experts_of_no_width_are_none(tmp_path: Path) -> None:
    small = tiny_config("deepseek_v3")
    config = type(small)(**{**explicit_values(small), "n_shared_experts": 0})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
        theirs = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    spec = get_model_spec("deepseek_v3")
    adapter = spec.state_dict_adapter_class(config)
    tokens, *rest = packed(config.vocab_size)
    with torch.no_grad():
        wanted = torch.cat([theirs(row).logits for row in tokens.split(LENGTHS, dim=1)], dim=1)
    for is_streamed in (True, False):
        model = spec.model_class(spec.model_args_class.from_hf_config(config))
        model.init_buffers("cpu")
        if is_streamed:
            load_checkpoint(model, tmp_path, adapter)
        else:
            model.load_state_dict(adapter.from_hf(weights))
        with torch.no_grad():
            found = model(tokens, *rest)
        assert (found - wanted).abs().max() < 1e-5 * wanted.std()
    back = adapter.to_hf(model.state_dict())
    assert back.keys() == {name for name, tensor in weights.items() if tensor.numel()}
