from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from areal.api.cli_args import GenerationHyperparameters


def test_new_is_a_deep_copy_with_changes() -> None:
    original = GenerationHyperparameters(stop_token_ids=[1], stop=["x"], n_samples=4)
    changed = original.new(n_samples=1)
    assert dataclasses.asdict(changed) == {**dataclasses.asdict(original), "n_samples": 1}
    changed.stop_token_ids.append(2)
    assert changed.stop is not None
    changed.stop.append("y")
    assert (original.stop_token_ids, original.stop, original.n_samples) == ([1], ["x"], 4)
    with pytest.raises(TypeError, match="n_sample"):
        original.new(n_sample=1)


@pytest.mark.parametrize(
    ("given", "pad", "eos", "expected"),
    [
        ([], 0, 2, [0, 2]),
        ([2], 0, 2, [2, 0]),
        ([5, 0, 2], 0, 2, [5, 0, 2]),
        ([], 2, 2, [2]),
        ([7], None, 2, [7, 2]),
    ],
)
def test_stop_and_pad_tokens(given: list[int], pad: int | None, eos: int, expected: Any) -> None:
    config = GenerationHyperparameters(stop_token_ids=given)
    tokenizer: Any = SimpleNamespace(pad_token_id=pad, eos_token_id=eos)
    before = list(given)
    assert config.new_with_stop_and_pad_token_ids(tokenizer).stop_token_ids == expected
    assert config.stop_token_ids == before


SET = GenerationHyperparameters(
    n_samples=4,
    max_new_tokens=64,
    temperature=0.7,
    top_p=0.9,
    stop=["END"],
    frequency_penalty=0.5,
    seed=3,
    reward_normalization=True,
    drop_incomplete_group=True,
)


@pytest.mark.parametrize(
    ("api_format", "budget"),
    [
        ("completions", "max_completion_tokens"),
        ("responses", "max_output_tokens"),
        ("openai-agents", "max_tokens"),
    ],
)
def test_openai_names(api_format: str, budget: str) -> None:
    assert SET.to_openai_args_dict(api_format=api_format) == {
        "n": 4,
        budget: 64,
        "temperature": 0.7,
        "top_p": 0.9,
        "stop": ["END"],
        "frequency_penalty": 0.5,
        "seed": 3,
    }


def test_openai_formats_have_a_method_each() -> None:
    assert SET.to_openai_completions_args_dict() == SET.to_openai_args_dict()
    assert SET.to_openai_responses_args_dict(["n"]) == SET.to_openai_args_dict(["n"], "responses")
    assert SET.to_openai_agents_model_settings_dict() == SET.to_openai_args_dict(
        api_format="openai-agents"
    )
    with pytest.raises(ValueError, match="unknown api_format 'chat'; known: completions"):
        SET.to_openai_args_dict(api_format="chat")


def test_what_an_api_lacks_is_left_out_at_its_default() -> None:
    plain = GenerationHyperparameters(max_new_tokens=8)
    assert plain.to_openai_args_dict() == {
        "n": 1,
        "max_completion_tokens": 8,
        "temperature": 1.0,
        "top_p": 1.0,
        "frequency_penalty": 0.0,
    }
    assert plain.to_openai_responses_args_dict() == {
        "max_output_tokens": 8,
        "temperature": 1.0,
        "top_p": 1.0,
    }
    assert "n" not in plain.to_openai_agents_model_settings_dict()


@pytest.mark.parametrize("excluded", ["max_new_tokens", "max_completion_tokens"])
def test_excluded_by_either_name(excluded: str) -> None:
    assert "max_completion_tokens" not in SET.to_openai_args_dict([excluded])


def test_dropped_options_warn_when_changed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        args = GenerationHyperparameters(
            top_k=5, greedy=True, min_new_tokens=1
        ).to_openai_args_dict()
    dropped = sorted(record.getMessage().partition("=")[0] for record in caplog.records)
    assert dropped == ["greedy", "min_new_tokens", "top_k"]
    assert not {"top_k", "greedy", "min_new_tokens", "lora_name", "max_tokens"} & set(args)
    caplog.clear()
    SET.to_openai_args_dict()
    assert not caplog.records


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, found 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"temperature": -0.1}, "temperature must be at least 0"),
        ({"temperature": float("nan")}, "temperature must be at least 0, found nan"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"top_p": 1.1}, "top_p must lie in"),
        ({"top_k": 0}, "top_k must be positive, or -1"),
    ],
)
def test_impossible_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GenerationHyperparameters(**options)


def test_borders_are_possible() -> None:
    GenerationHyperparameters(temperature=0.0, top_p=1.0, top_k=-1, max_new_tokens=1)
