"""Decode steps as code: what a model's modules compute, without them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.decoder import Decoder
from areal.engine.local.slots import DecodePlan, PrefillPlan, SlotCache
from areal.engine.local.token_step import NotStraightError, TokenStep
from areal.engine.model.causal_lm import CausalLM, HFCausalLM
from tests.tiny_archon import archon_of
from tests.tiny_models import random_prompts, tiny_model
from tests.unit.engine.local.test_decoder import finish, row


def lm_of(architecture: str = "qwen3", backend: str = "fsdp:d1", **options: Any) -> CausalLM:
    model = tiny_model(architecture, **options)
    if backend == "archon:d1":
        return archon_of(model)
    return HFCausalLM(prepare_model(model, torch.device("cpu")))


def inputs(lm: CausalLM, num_rows: int) -> tuple[Tensor, Tensor, DecodePlan]:
    """Return the last tokens [R], positions [R] and plan of rows with something cached."""
    prompts = random_prompts([3 + i % 5 for i in range(num_rows)])
    lengths = [len(prompt) for prompt in prompts]
    cache = SlotCache(lm.num_layers, lm.device)
    tokens = torch.tensor([token for prompt in prompts for token in prompt])
    positions = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        lm.logits(tokens, positions, lengths, PrefillPlan(cache, lengths, range(num_rows), 0))
    columns_R = torch.tensor(lengths)
    cache.reserve(num_rows, max(lengths) + 1)
    last_R = torch.tensor([prompt[0] for prompt in prompts])
    return last_R, columns_R, DecodePlan(cache, columns_R)


@torch.no_grad()
def gap(step: TokenStep, lm: CausalLM, num_rows: int = 4) -> float:
    """Return how far the code's logits are from the model's."""
    tokens_R, positions_R, plan = inputs(lm, num_rows)
    own = lm.logits(tokens_R, positions_R, [1] * num_rows, plan)
    return float((step.logits(*inputs(lm, num_rows)) - own).abs().max())


# Windows, biases, soft caps, sinks, scaled embeddings, experts, norms of heads and of outputs.
HF_TYPES = ("qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "gpt_oss", "qwen3_moe")
HF_TYPES += ("olmo2", "glm4", "phi3")


@pytest.mark.parametrize(
    ("architecture", "backend"),
    [(name, "fsdp:d1") for name in HF_TYPES] + [("llama", "archon:d1"), ("qwen3", "archon:d1")],
)
def test_the_code_computes_what_the_model_does_and_calls_no_module(
    architecture: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = lm_of(architecture, backend)
    step = TokenStep(lm)
    for num_rows in (1, 2, 40):
        assert gap(step, lm, num_rows) < 1e-5
    ready = inputs(lm, 3)

    def refuse(module: nn.Module, *_: Any, **__: Any) -> None:
        raise AssertionError(f"{type(module).__name__} was called")

    monkeypatch.setattr(nn.Module, "__call__", refuse)
    with torch.no_grad():
        step.logits(*ready)
        with pytest.raises(AssertionError, match="was called"):
            lm.logits(*ready[:2], [1] * 3, ready[2])


@torch.no_grad()
def test_an_update_in_place_is_seen_without_a_copy() -> None:
    lm = lm_of()
    step = TokenStep(lm)
    before = step.logits(*inputs(lm, 4))
    for parameter in lm.module.parameters():
        parameter.mul_(1.1)
    assert step.is_current()
    assert gap(step, lm) < 1e-5
    assert float((step.logits(*inputs(lm, 4)) - before).abs().max()) > 1e-3


def test_parameters_elsewhere_are_recorded_anew() -> None:
    model: Any = prepare_model(tiny_model(), torch.device("cpu"))
    decoder = Decoder(model)
    prompts = random_prompts([4, 6])
    first = finish(decoder, [row(prompt, 6, ignore_eos=True) for prompt in prompts])
    other = tiny_model(seed=9)
    for parameter, wanted in zip(model.parameters(), other.parameters(), strict=True):
        parameter.data = wanted.detach().clone()
    decoder.num_updates += 1
    second = finish(decoder, [row(prompt, 6, ignore_eos=True) for prompt in prompts])
    fresh = Decoder(prepare_model(tiny_model(seed=9), torch.device("cpu")))
    expected = finish(fresh, [row(prompt, 6, ignore_eos=True) for prompt in prompts])
    assert [done.tokens for done in second] == [done.tokens for done in expected]
    assert [done.tokens for done in second] != [done.tokens for done in first]


class _Doubled(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.inner(x)


def test_other_modules_over_the_same_parameters_are_recorded_anew() -> None:
    lm, changed = lm_of(), lm_of()
    step = TokenStep(lm)
    mlp: Any = lm.module.get_submodule("model.layers.0.mlp")
    mlp.down_proj = _Doubled(mlp.down_proj)
    assert not step.is_current()
    assert gap(TokenStep(lm), lm) < 1e-5
    late = TokenStep(changed)
    changed.module.register_forward_hook(lambda *_: None)
    assert not late.is_current()


class _Changed(HFCausalLM):
    """A model whose logits are changed by what a recording cannot keep."""

    change: Callable[[Tensor, Tensor], Tensor]

    def logits(self, tokens_T: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.change(super().logits(tokens_T, *args, **kwargs), tokens_T)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, t: x + float(t[0]), "reads values"),
        (lambda x, t: x * 2 if (t > 50).any() else x, "reads values"),
        (lambda x, t: x + t.data_ptr() % 7, "reads values"),
        (lambda x, t: torch.stack([*x.unbind(0)]), "a tensor for each row"),
        (lambda x, t: torch.stack([each + 1 for each in x]), "other calls|for each row"),
        (lambda x, t: x + len(t) ** 2, "computes something else"),
        (lambda x, t: x + len(t) % 2, "computes something else"),
        (lambda x, t: x + 1.5 ** len(t), "changes with the number of rows"),
        (lambda x, t: x[: len(t), : int(t.sum())], "reads values"),
        (lambda x, t: x.no_such_name, "AttributeError"),
    ],
)
def test_what_depends_on_values_or_oddly_on_rows_runs_by_modules(
    change: Callable[[Tensor, Tensor], Tensor], reason: str
) -> None:
    lm = _Changed(prepare_model(tiny_model(), torch.device("cpu")))
    lm.change = change
    with pytest.raises(NotStraightError, match=reason):
        TokenStep(lm)


def test_a_decoder_gives_the_reason_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    prompt = random_prompts([6])[0]
    expected = finish(Decoder(lm_of()), [row(prompt, 8, ignore_eos=True)])
    lm = lm_of()
    calls: list[None] = []
    lm.module.register_forward_pre_hook(lambda *_: calls.append(None))
    with caplog.at_level(logging.INFO):
        found = finish(Decoder(lm), [row(prompt, 8, ignore_eos=True)])
    assert found[0].tokens == expected[0].tokens
    assert len(calls) == 8
    assert caplog.text.count("would not call the hooks") == 1
