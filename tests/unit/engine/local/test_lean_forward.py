"""The lean forward pass: the logits of the model's own modules, or none at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from areal.api.cli_args import GenerationHyperparameters
from areal.engine.attention import PackedPlan
from areal.engine.local.decoder import Decoder, Row
from areal.engine.local.lean_forward import LeanForward, make_lean_forward
from areal.engine.local.slots import DecodePlan, PrefillPlan, SlotCache
from areal.engine.model import prepare_model
from tests.tiny_models import VOCAB_SIZE, random_prompts, tiny_model

LENGTHS = [5, 2, 7]


def served(architecture: str, **options: Any) -> nn.Module:
    return prepare_model(tiny_model(architecture, **options), torch.device("cpu"))


def lean_of(model: nn.Module) -> LeanForward:
    lean = make_lean_forward(model)
    assert lean is not None
    return lean


def module_logits(model: Any, tokens: Tensor, positions: Tensor, plan: Any) -> Tensor:
    out = model(
        input_ids=tokens[None], position_ids=positions[None], use_cache=False, attention_plan=plan
    )
    return out.logits[0]


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("qwen3", {"hidden_act": "gelu"}),
        ("qwen3", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
        ("smollm3", {}),
    ],
)
@torch.inference_mode()
def test_prefill_and_decode_give_the_logits_of_the_modules(
    architecture: str, options: dict[str, Any]
) -> None:
    model = served(architecture, **options)
    lean = lean_of(model)
    tokens = torch.tensor([t for prompt in random_prompts(LENGTHS) for t in prompt])
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    last, ends = torch.tensor([3, 4, 5]), torch.tensor(LENGTHS)
    found, expected = [], []
    for outputs, run in (
        (found, lambda *call: lean(*call, None)),
        (expected, lambda *call: module_logits(model, *call)),
    ):
        cache = SlotCache(2, torch.device("cpu"))
        outputs.append(run(tokens, positions, PrefillPlan(cache, LENGTHS, range(3), 0)))
        cache.reserve(3, max(LENGTHS) + 1)
        outputs.append(run(last, ends, DecodePlan(cache, ends, max(LENGTHS) + 1)))
    for one, other in zip(found, expected, strict=True):
        # The order of fp32 summation differs, over logits of magnitude ten.
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


@torch.inference_mode()
def test_only_kept_tokens_reach_the_vocabulary() -> None:
    lean = lean_of(served("qwen3"))
    tokens, keep = torch.arange(2, 9), torch.tensor([6, 0])
    plan = PackedPlan([7])
    kept = lean(tokens, torch.arange(7), plan, keep)
    everything = lean(tokens, torch.arange(7), plan, None)
    assert kept.shape == (2, VOCAB_SIZE)
    torch.testing.assert_close(kept, everything[keep])


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("gemma3_text", {}),  # norms scale by 1 + weight
        ("granite", {"residual_multiplier": 0.5}),
        ("granite", {"logits_scaling": 4.0}),
        ("mistral", {}),  # its window stands in the configuration, not in the layer
        ("olmo2", {}),  # norms stand after the blocks
        ("phi3", {}),  # one projection for query, key and value
        ("qwen3_moe", {}),
        ("smollm3", {"no_rope_layers": [1, 0]}),
    ],
)
def test_a_model_that_is_built_differently_runs_by_itself(
    architecture: str, options: dict[str, Any]
) -> None:
    assert make_lean_forward(served(architecture, **options)) is None


def test_hooks_are_not_passed_by() -> None:
    model = served("qwen3")
    handle = model.get_submodule("model.layers.1.mlp").register_forward_hook(lambda *_: None)
    assert make_lean_forward(model) is None
    handle.remove()
    decoder, (prompt,) = Decoder(model), random_prompts([4])
    expected, calls = generate(decoder, prompt), []
    model.register_forward_hook(lambda *_: calls.append(1))
    assert generate(decoder, prompt) == expected
    assert len(calls) == len(expected)


def test_weights_that_are_not_finite_are_left_to_the_model() -> None:
    model = served("qwen3")
    with torch.no_grad():
        model.get_submodule("lm_head").weight.fill_(float("nan"))
    assert make_lean_forward(model) is None


@pytest.mark.parametrize("replaces_tensors", [False, True])
def test_a_decoder_generates_by_the_newest_weights(replaces_tensors: bool) -> None:
    model, newer = served("qwen3"), served("qwen3", seed=1)
    decoder, fresh = Decoder(model), Decoder(newer)
    (prompt,) = random_prompts([4])
    before = generate(decoder, prompt)
    with torch.no_grad():
        for parameter, new in zip(model.parameters(), newer.parameters(), strict=True):
            if replaces_tensors:
                parameter.data = new.data.clone()
            else:
                parameter.copy_(new)
    decoder.num_updates += 1
    after = generate(decoder, prompt)
    assert after == generate(fresh, prompt) != before


def generate(decoder: Decoder, prompt: list[int]) -> list[int]:
    gconfig = GenerationHyperparameters(greedy=True, ignore_eos=True)
    done = decoder.admit([Row(prompt, gconfig, 8)])
    while decoder.rows:
        done += decoder.advance()
    return done[0].tokens
