"""LoRA adapters: what is trained, what is computed, and what lies on disk."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from areal.api.cli_args import (
    GenerationHyperparameters,
    InferenceEngineConfig,
    OptimizerConfig,
    TrainEngineConfig,
)
from areal.api.errors import ConfigError
from areal.api.io_struct import (
    FinetuneSpec,
    ModelRequest,
    ModelResponse,
    SaveLoadMeta,
    WeightUpdateMeta,
)
from areal.engine.loading.huggingface import load_model, prepare_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.causal_lm import HFCausalLM
from areal.engine.model.checkpoint import save_hf_model
from areal.engine.model.lora import BaseOfLora, LoraCausalLM, base_model_path
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.by_config import ArchonEngine, FSDPEngine
from tests.tiny_models import random_prompts, tiny_model

CPU = torch.device("cpu")
SPEC = FinetuneSpec(total_train_epochs=1, dataset_size=10, train_batch_size=1)
TOKENS = torch.tensor(random_prompts([9])[0])
LAYERS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base") / "model"
    save_hf_model(prepare_model(tiny_model(), CPU), folder)
    return str(folder)


def make_engine(path: str, **options: Any) -> FSDPEngine:
    fields: dict[str, Any] = {"lora_rank": 4, "lora_alpha": 8, **options}
    config = TrainEngineConfig(
        path=path,
        backend="fsdp:d1",
        optimizer=OptimizerConfig(lr=0.05, warmup_steps=0),
        use_lora=True,
        **fields,
    )
    torch.manual_seed(0)
    engine = FSDPEngine(config)
    engine.initialize(None, SPEC)
    return engine


def train(engine: FSDPEngine, steps: int = 2) -> None:
    batch = {
        "input_ids": TOKENS[None],
        "attention_mask": torch.ones(1, 9, dtype=torch.bool),
        "loss_mask": torch.tensor([[1] * 8 + [0]]),
    }
    for _ in range(steps):
        engine.train_batch(
            batch, lambda logprobs, *_: -logprobs.mean(), lambda mb: mb["loss_mask"].sum()
        )
        engine.lr_scheduler_step()


@torch.no_grad()
def logprobs(lm: HFCausalLM) -> torch.Tensor:
    return lm.logits(TOKENS, torch.arange(9), [9]).log_softmax(-1)


@torch.no_grad()
def plain_logprobs(model: Any) -> torch.Tensor:
    return model.eval()(input_ids=TOKENS[None], use_cache=False).logits[0].log_softmax(-1)


def adapter_tensors(engine: FSDPEngine) -> dict[str, torch.Tensor]:
    return {name: each.detach().clone() for name, each in engine.lm.named_parameters()}


def save(engine: FSDPEngine, folder: Path, with_optim: bool = False) -> str:
    engine.save(SaveLoadMeta(path=str(folder), weight_format="hf", with_optim=with_optim))
    return str(folder)


def test_a_new_adapter_changes_no_log_probability(base: str) -> None:
    engine = make_engine(base)
    plain = HFCausalLM(load_model(base, torch.float32, CPU))
    # Tensors lie otherwise in memory, and products round otherwise.
    torch.testing.assert_close(logprobs(engine.lm), logprobs(plain), atol=1e-5, rtol=0)


def test_only_the_adapter_is_trained_and_has_optimiser_state(base: str) -> None:
    engine = make_engine(base)
    before = {name: each.clone() for name, each in engine.module.state_dict().items()}
    train(engine)
    changed = {
        n for n, each in engine.module.state_dict().items() if not torch.equal(each, before[n])
    }
    own = {name for name, each in engine.module.named_parameters() if each.requires_grad}
    assert changed == own == {name for name in before if ".lora_" in name}
    assert all(each.grad is None for n, each in engine.module.named_parameters() if n not in own)
    info = engine.get_lora_adapter_info()
    assert len(info) == len(own) == 2 * 2 * len(LAYERS)
    assert info["base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"] == (4, 48)
    assert engine.optimizer is not None
    state = set(engine.optimizer.state)
    assert state == {each for each in engine.module.parameters() if each.requires_grad}


@pytest.mark.parametrize("architecture", ["qwen3", "gpt2", "qwen3_moe"])
def test_the_live_adapter_computes_what_merged_weights_do(
    tmp_path: Path, architecture: str
) -> None:
    save_hf_model(prepare_model(tiny_model(architecture), CPU), tmp_path / "base")
    engine = make_engine(str(tmp_path / "base"))
    unadapted = logprobs(engine.lm)
    train(engine)
    live = logprobs(engine.lm)
    assert (live - unadapted).abs().max() > 0.1
    engine.save_merged(
        SaveLoadMeta(path=str(tmp_path / "merged"), weight_format="hf", with_optim=False)
    )
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    torch.testing.assert_close(live, plain_logprobs(merged), atol=1e-5, rtol=0)
    path = save(engine, tmp_path / "adapter")
    model = load_model(path, torch.float32, CPU)
    torch.testing.assert_close(live, logprobs(HFCausalLM(model)), atol=1e-5, rtol=0)
    assert model.state_dict().keys() == merged.state_dict().keys()
    assert all(each.requires_grad for each in model.parameters())
    expected = dict(load_file(tmp_path / "merged" / "model.safetensors"))
    found = dict(engine.full_parameters())
    assert {n: t.shape for n, t in found.items()} == {n: t.shape for n, t in expected.items()}
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def generate(weights: SharedWeights, update: WeightUpdateMeta | None = None) -> ModelResponse:
    engine = LocalInferenceEngine(InferenceEngineConfig(), weights)
    engine.initialize()
    try:
        if update is not None:
            engine.update_weights_from_disk(update).result(60)
        gconfig = GenerationHyperparameters(max_new_tokens=20, greedy=True, ignore_eos=True)
        request = ModelRequest(input_ids=[3, 4, 5], gconfig=gconfig)
        return asyncio.run(asyncio.wait_for(engine.agenerate(request), timeout=60))
    finally:
        engine.destroy()


def test_the_embedded_engine_generates_with_the_live_adapter(base: str, tmp_path: Path) -> None:
    engine = make_engine(base)
    train(engine)
    path = save(engine, tmp_path / "adapter")
    live = generate(engine.weights)
    merged = generate(SharedWeights(load_model(path, torch.float32, CPU)))
    plain = generate(SharedWeights(load_model(base, torch.float32, CPU)))
    meta = WeightUpdateMeta(type="disk", path=path, version=3, use_lora=True)
    loaded = generate(SharedWeights(load_model(base, torch.float32, CPU)), meta)
    assert (loaded.output_tokens, loaded.output_versions) == (live.output_tokens, [3] * 20)
    assert live.output_tokens == merged.output_tokens != plain.output_tokens
    assert live.output_logprobs == pytest.approx(merged.output_logprobs, abs=1e-5)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
def test_peft_reads_what_is_written(base: str, tmp_path: Path) -> None:
    engine = make_engine(base)
    train(engine)
    folder = save(engine, tmp_path / "adapter")
    assert {path.name for path in Path(folder).iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, folder)
    torch.testing.assert_close(plain_logprobs(model), logprobs(engine.lm), atol=1e-5, rtol=0)
    written = json.loads((Path(folder) / "adapter_config.json").read_text())
    assert (written["r"], written["lora_alpha"], written["task_type"]) == (4, 8, "CAUSAL_LM")
    assert written["base_model_name_or_path"] == base == base_model_path(folder)
    assert set(written["target_modules"]) == LAYERS


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
def test_training_goes_on_from_an_adapter_that_peft_wrote(base: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = get_peft_model(
        model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], init_lora_weights=False)
    )
    model.save_pretrained(tmp_path / "theirs")
    engine = make_engine(str(tmp_path / "theirs"))
    assert len(engine.get_lora_adapter_info()) == 4
    torch.testing.assert_close(logprobs(engine.lm), plain_logprobs(model), atol=1e-5, rtol=0)
    train(engine)
    assert (logprobs(engine.lm) - plain_logprobs(model)).abs().max() > 0.1


def test_a_checkpoint_is_the_adapter_and_resumes_bit_for_bit(base: str, tmp_path: Path) -> None:
    straight = make_engine(base)
    train(straight, 2)
    folder = save(straight, tmp_path / "checkpoint", with_optim=True)
    train(straight, 2)
    resumed = make_engine(base)
    resumed.load(SaveLoadMeta(path=folder, weight_format="hf", with_optim=True))
    train(resumed, 2)
    found, expected = adapter_tensors(resumed), adapter_tensors(straight)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    written = load_file(Path(folder) / "adapter_model.safetensors")
    assert written.keys() == expected.keys()
    assert not (Path(folder) / "model.safetensors").exists()


def test_the_reference_is_the_model_beneath_and_no_copy(base: str) -> None:
    engine = make_engine(base)
    unadapted = logprobs(engine.lm)
    train(engine)
    beneath = BaseOfLora(engine.weights)
    live = logprobs(engine.lm)
    assert beneath.module is engine.module
    # A new adapter adds zeros, and what follows rounds otherwise.
    torch.testing.assert_close(logprobs(beneath), unadapted, atol=1e-5, rtol=0)
    assert torch.equal(logprobs(engine.lm), live)
    train(engine)  # what was switched off is trained again
    assert not torch.equal(logprobs(engine.lm), live)


def test_adapters_of_16_bit_models_are_kept_in_float32(base: str) -> None:
    engine = make_engine(base, dtype="bfloat16")
    assert {each.dtype for _, each in engine.lm.named_parameters()} == {torch.float32}
    assert engine.lm.dtype == torch.bfloat16
    train(engine, 1)
    assert {tensor.dtype for _, tensor in engine.full_parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_modules": ["q_proj", "qkv"]}, "'qkv' is nothing in the model.*q_proj"),
        ({"target_modules": ["embed_tokens"]}, "'embed_tokens' is no linear layer"),
        ({"target_modules": ["self_attn"]}, "'self_attn' is no linear layer"),
        ({"peft_type": "ia3"}, "actor.peft_type 'ia3'"),
        ({"init_from_scratch": True}, "actor.init_from_scratch"),
        ({"is_critic": True}, "critic"),
        ({"lora_rank": 0}, "lora_rank"),
        ({"lora_alpha": 0}, "lora_alpha"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    base: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(base, **options)


def test_a_head_that_is_the_embedding_is_refused(tmp_path: Path) -> None:
    model = prepare_model(tiny_model(tie_word_embeddings=True), CPU)
    save_hf_model(model, tmp_path / "tied")
    with pytest.raises(ConfigError, match="'lm_head' shares its weight with the embedding"):
        make_engine(str(tmp_path / "tied"), target_modules=["lm_head"])


@pytest.mark.parametrize(("cls", "backend"), [(FSDPEngine, "fsdp:d2"), (ArchonEngine, "archon:d1")])
def test_backends_without_adapters_are_refused(base: str, cls: Any, backend: str) -> None:
    with pytest.raises(ConfigError, match=f"actor.backend is '{backend}'"):
        cls(TrainEngineConfig(path=base, backend=backend, use_lora=True))


def test_a_missing_package_is_named(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match=r"pip install 'areal-lite\[lora\]'"):
        make_engine(base)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r": 8}, "actor.lora_rank is 4, and .* has 8"),
        ({"lora_alpha": 1}, "actor.lora_alpha is 8, and .* has 1"),
        ({"bias": "all"}, "has bias, which is not available"),
        ({"use_dora": True}, "has use_dora"),
        ({"peft_type": "IA3"}, "peft_type IA3; LORA is available"),
        ({"base_model_name_or_path": None}, "names no base_model_name_or_path"),
        ({"target_modules": ["q_proj"]}, "does not fit: missing .*unknown .*k_proj"),
    ],
)
def test_a_foreign_adapter_is_refused(
    base: str, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = Path(save(make_engine(base), tmp_path / "adapter"))
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(ConfigError, match=message):
        make_engine(str(folder))


def test_the_whole_model_is_no_adapter(base: str) -> None:
    engine = make_engine(base)
    with pytest.raises(ConfigError, match="there is no LoRA adapter in"):
        engine.load(SaveLoadMeta(path=base, weight_format="hf", with_optim=False))
    assert isinstance(engine.lm, LoraCausalLM)
