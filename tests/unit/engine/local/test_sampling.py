"""Sampling: the distribution that is drawn from, and the log-probability that is reported."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError
from areal.engine.local.sampling import SamplingBatch, check_generation, sample_tokens

NUM_DRAWS = 4096


def options(vocab_size: int, *rows: dict[str, Any]) -> SamplingBatch:
    gconfigs = [GenerationHyperparameters(**row) for row in rows]
    return SamplingBatch.of(gconfigs, vocab_size, torch.device("cpu"))


def frequencies(logits_V: Tensor, adjusted_V: Tensor | None = None, **row: Any) -> Tensor:
    """Returns how often each token is drawn by evenly spaced uniform numbers.

    Inverting the distribution with them gives each token's probability to within 1 / NUM_DRAWS.
    """
    logits_RV = logits_V.expand(NUM_DRAWS, -1)
    uniforms = (torch.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
    adjusted_RV = None if adjusted_V is None else adjusted_V.expand(NUM_DRAWS, -1)
    tokens, _ = sample_tokens(
        logits_RV, options(len(logits_V), *[row] * NUM_DRAWS), uniforms, adjusted_RV
    )
    return torch.bincount(tokens, minlength=len(logits_V)) / NUM_DRAWS


def truncated(probs: list[float], top_k: int, top_p: float) -> list[float]:
    """Is top-k, then top-p on what is left, one token at a time."""
    order = sorted(range(len(probs)), key=lambda i: -probs[i])[:top_k]
    mass = sum(probs[i] for i in order)
    kept, total = [], 0.0
    for i in order:
        if total >= top_p * mass:
            break
        kept.append(i)
        total += probs[i]
    return [probs[i] / total if i in kept else 0.0 for i in range(len(probs))]


LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.2, 0.9, -4.0, 1.7, 0.0])


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(-1, 1.0), (3, 1.0), (1, 1.0), (-1, 0.7), (-1, 0.05), (4, 0.6), (99, 0.99)]
)
def test_tokens_come_from_the_truncated_distribution(
    temperature: float, top_k: int, top_p: float
) -> None:
    found = frequencies(LOGITS, temperature=temperature, top_k=top_k, top_p=top_p)
    probs = (LOGITS / temperature).softmax(-1).tolist()
    expected = truncated(probs, len(probs) if top_k == -1 else top_k, top_p)
    assert found.tolist() == pytest.approx(expected, abs=2 / NUM_DRAWS)
    for share, prob in zip(found.tolist(), expected, strict=True):
        assert share > 0 if prob > 1 / NUM_DRAWS else share == 0 or prob > 0


def test_what_is_drawn_may_differ_from_what_is_reported() -> None:
    adjusted = LOGITS.clone()
    adjusted[1] = -math.inf
    found = frequencies(LOGITS, adjusted, temperature=2.0)
    assert found.tolist() == pytest.approx((adjusted / 2).softmax(-1).tolist(), abs=2 / NUM_DRAWS)
    _, logprobs = sample_tokens(
        LOGITS[None], options(8, {"temperature": 2.0}), torch.tensor([0.5]), adjusted[None]
    )
    token, _ = sample_tokens(
        LOGITS[None], options(8, {"temperature": 2.0}), torch.tensor([0.5]), adjusted[None]
    )
    torch.testing.assert_close(logprobs[0], (LOGITS / 2).log_softmax(-1)[token[0]])


def test_each_row_follows_its_own_options() -> None:
    rows: list[dict[str, Any]] = [
        {},
        {"greedy": True},
        {"greedy": True, "temperature": 0.1},
        {"temperature": 0.2},
        {"top_k": 2},
        {"top_p": 0.3, "temperature": 3.0},
    ]
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(rows), 50, generator=generator) * 2
    uniforms = torch.rand(len(rows), generator=generator)
    tokens, logprobs = sample_tokens(logits, options(50, *rows), uniforms)
    for i, row in enumerate(rows):
        one = slice(i, i + 1)
        alone = sample_tokens(logits[one], options(50, row), uniforms[one])
        assert torch.equal(tokens[one], alone[0])
        # The reported value is over the whole vocabulary, and greedy counts as temperature 1.
        temperature = 1.0 if row.get("greedy") else row.get("temperature", 1.0)
        expected = (logits[i] / temperature).log_softmax(-1)[tokens[i]]
        torch.testing.assert_close(logprobs[i], expected)
        torch.testing.assert_close(logprobs[one], alone[1])
        if row.get("greedy"):
            assert tokens[i] == logits[i].argmax()


def test_low_precision_logits_are_judged_in_fp32() -> None:
    logits = (LOGITS * 3).bfloat16()[None]
    _, logprobs = sample_tokens(logits, options(8, {}), torch.tensor([0.2]))
    assert logprobs.dtype == torch.float32
    assert logprobs[0] in logits[0].float().log_softmax(-1)


@settings(deadline=None)
@given(
    st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-7, 0.5, 1 - 2**-24]),
    st.floats(0.05, 1.0),
)
def test_a_token_without_weight_is_never_drawn(
    values: list[float], uniform: float, top_p: float
) -> None:
    logits = torch.tensor([[*values, -math.inf]])
    for row in ({}, {"top_p": top_p}):
        token, logprob = sample_tokens(
            logits, options(logits.shape[1], row), torch.tensor([uniform])
        )
        assert 0 <= token.item() < len(values)
        assert math.isfinite(logprob.item())


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"use_beam_search": True}, "use_beam_search"),
        ({"temperature": 0.0}, "greedy"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": -2}, "top_k"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"seed": -1}, "seed"),
        ({"frequency_penalty": math.nan}, "frequency_penalty"),
        ({"stop": [""]}, "empty"),
        ({"stop": "END"}, "list"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(fields: dict[str, Any], word: str) -> None:
    gconfig = GenerationHyperparameters()
    for name, value in fields.items():  # past the dataclass's own checks
        setattr(gconfig, name, value)
    with pytest.raises(ConfigError, match=word):
        check_generation(gconfig)


def test_greedy_needs_no_temperature() -> None:
    gconfig = GenerationHyperparameters(greedy=True)
    gconfig.temperature = 0.0
    check_generation(gconfig)
