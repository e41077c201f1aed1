"""Packed attention: equal to the model's own, sequence by sequence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.engine.model.attention import IMPLEMENTATION, PackedPlan
from areal.utils.packed_rows import MIN_BUCKET_FILL, bucket_by_length
from tests.tiny_models import random_prompts, tiny_model

LENGTHS = [5, 11, 3, 8, 11, 1]


def packed_logits(model: nn.Module, prompts: list[list[int]]) -> list[Tensor]:
    """Runs all sequences in one call of the model over packed tokens."""
    lengths = [len(prompt) for prompt in prompts]
    out = model(
        input_ids=torch.tensor([[t for prompt in prompts for t in prompt]]),
        position_ids=torch.cat([torch.arange(n) for n in lengths])[None],
        use_cache=False,
        attention_plan=PackedPlan(lengths),
    )
    return list(out.logits[0].split(lengths))


def gradients(model: nn.Module, logits: list[Tensor], seed: int) -> dict[str, Tensor]:
    """Returns gradients of a random linear functional of the logits."""
    generator = torch.Generator().manual_seed(seed)
    total = sum((x * torch.randn(x.shape, generator=generator)).sum() for x in logits)
    model.zero_grad()
    assert isinstance(total, Tensor)
    total.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


# Windows, soft caps, sinks, norms of heads, experts.
TRAINED = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "exaone4", "gpt_oss")


@pytest.mark.parametrize("architecture", [*TRAINED, "qwen3_moe"])
def test_packed_logits_and_gradients_are_those_of_each_sequence_alone(architecture: str) -> None:
    model = tiny_model(architecture)
    prompts = random_prompts(LENGTHS)
    alone = [model(input_ids=torch.tensor([p]), use_cache=False).logits[0] for p in prompts]
    expected = gradients(model, alone, seed=1)
    model.set_attn_implementation(IMPLEMENTATION)
    packed = packed_logits(model, prompts)
    found = gradients(model, packed, seed=1)

    for got, want in zip(packed, alone, strict=True):
        # fp32 sums in another order: a few units in the last place of values around 1 to 10.
        torch.testing.assert_close(got, want, rtol=1e-5, atol=2e-5)
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        scale = float(want.abs().max())
        torch.testing.assert_close(found[name], want, rtol=1e-4, atol=2e-5 * scale + 1e-6)


def test_the_sliding_window_of_a_model_is_kept() -> None:
    prompts = random_prompts([12])
    windowed, full = (tiny_model("mistral", sliding_window=w) for w in (4, None))
    for model in (windowed, full):
        model.set_attn_implementation(IMPLEMENTATION)
    near, far = (packed_logits(model, prompts)[0] for model in (windowed, full))
    torch.testing.assert_close(near[:4], far[:4], rtol=1e-5, atol=2e-5)
    assert (near[4:] - far[4:]).detach().abs().max().item() > 1e-2


@pytest.mark.parametrize("lengths", [[7], [4, 4, 4], [1, 1, 1], [1, 30], [9, 2, 9, 2, 30, 1]])
def test_any_mix_of_lengths_attends_within_each_sequence(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(h, sum(lengths), 8, generator=generator) for h in (4, 2, 2))
    out = PackedPlan(lengths).attend(0, q, k, v, 0.3, None)
    pieces = zip(*(x.split(lengths, dim=1) for x in (q, k, v)), strict=True)
    expected = [
        torch.nn.functional.scaled_dot_product_attention(
            a[None], b[None], c[None], is_causal=True, scale=0.3, enable_gqa=True
        )[0].transpose(0, 1)
        for a, b, c in pieces
    ]
    torch.testing.assert_close(out, torch.cat(expected), rtol=1e-5, atol=1e-6)


def test_values_may_have_another_size_than_keys() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [3, 6, 2]
    q, k = (torch.randn(h, 11, 8, generator=generator) for h in (4, 4))
    v = torch.randn(4, 11, 6, generator=generator)
    assert PackedPlan(lengths).attend(0, q, k, v, 0.3, None).shape == (11, 4, 6)


def test_what_plans_do_not_have_is_refused_by_name() -> None:
    model = tiny_model("gpt2")
    model.set_attn_implementation(IMPLEMENTATION)
    model.train()
    with pytest.raises(ConfigError, match="dropout"):
        packed_logits(model, random_prompts([3]))


def test_a_call_without_a_plan_says_what_to_do() -> None:
    model = tiny_model()
    model.set_attn_implementation(IMPLEMENTATION)
    with pytest.raises(ConfigError, match="set_attn_implementation"):
        model(input_ids=torch.tensor([[3, 4]]), use_cache=False)


@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=60))
def test_buckets_hold_each_sequence_once_and_are_mostly_full(lengths: list[int]) -> None:
    buckets = bucket_by_length(lengths)
    assert sorted(i for bucket in buckets for i in bucket) == list(range(len(lengths)))
    longest = [[lengths[i] for i in bucket] for bucket in buckets]
    for bucket in longest:
        assert bucket == sorted(bucket, reverse=True)
        assert sum(bucket) >= MIN_BUCKET_FILL * bucket[0] * len(bucket) - 1e-9
    assert [b[0] for b in longest] == sorted((b[0] for b in longest), reverse=True)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_packing_and_unpacking_keeps_every_token_in_place(lengths: list[int]) -> None:
    # A query sees its own key best by far, so each token's output is all but its own value.
    total = sum(lengths)
    positions = torch.arange(total, dtype=torch.float32)
    key = torch.stack([torch.cos(positions), torch.sin(positions)], -1)[None] * 1e4
    value = torch.stack([positions, -positions], -1)[None]
    out = PackedPlan(lengths).attend(0, key, key, value, 1.0, None)
    torch.testing.assert_close(out[:, 0], value[0], rtol=0, atol=1e-3)
