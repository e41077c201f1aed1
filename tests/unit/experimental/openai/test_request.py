"""Parameters of requests: mapped, ignored or refused, never dropped in silence."""

from __future__ import annotations

from typing import Any

import pytest

from areal.api.cli_args import GenerationHyperparameters
from areal.experimental.openai import left_out
from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.request import ChatRequest
from tests.unit.experimental.openai.scripted import USER

DEFAULTS = GenerationHyperparameters(max_new_tokens=9, temperature=0.7, n_samples=4, seed=3)


def parsed(**params: Any) -> ChatRequest:
    return ChatRequest.parse({"messages": [USER], **params}, DEFAULTS)


@pytest.mark.parametrize(
    ("params", "changed"),
    [
        ({}, {}),
        ({"max_tokens": 5}, {"max_new_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_new_tokens": 6}),
        ({"max_total_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 1.5}, {"temperature": 1.5}),
        ({"temperature": 0}, {"temperature": 1.0, "greedy": True}),
        ({"top_p": 0.5, "top_k": 3}, {"top_p": 0.5, "top_k": 3}),
        ({"extra_body": {"top_k": 3}}, {"top_k": 3}),
        ({"frequency_penalty": 1}, {"frequency_penalty": 1.0}),
        ({"seed": 5}, {"seed": 5}),
        ({"stop": "x"}, {"stop": ["x"]}),
        ({"stop": ["x", "y"]}, {"stop": ["x", "y"]}),
        ({"model": "m", "user": "u", "store": True, "n": 1, "stream": True}, {}),
        ({"presence_penalty": 0, "logprobs": False, "response_format": {"type": "text"}}, {}),
    ],
)
def test_mapped(params: dict[str, Any], changed: dict[str, Any]) -> None:
    assert parsed(**params).gconfig == DEFAULTS.new(n_samples=1, **changed)


def test_greedy_defaults_give_way_to_a_temperature() -> None:
    greedy = DEFAULTS.new(greedy=True)
    request = ChatRequest.parse({"messages": [USER], "temperature": 0.5}, greedy)
    assert (request.gconfig.greedy, request.gconfig.temperature) == (False, 0.5)
    assert ChatRequest.parse({"messages": [USER]}, greedy).gconfig.greedy


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "custom"}]}, "tools"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 0}, "max_new_tokens"),
        ({"top_p": 0}, "top_p"),
        ({"stop": [""]}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop": {"a": "b"}}, "stop"),
        ({"tools": {"a": 1}}, "tools"),
        ({"tools": [{"type": "function"}]}, "no function with a name"),
        ({"tools": [{"type": "function", "function": {"name": 5}}]}, "no function with a name"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": 5}, "stream_options"),
        ({"extra_body": "n"}, "extra_body"),
        ({"chat_template_kwargs": 5}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tokenize": False}}, "sets tokenize"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "malformed: KeyError"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "malformed"),
    ],
)
def test_refused(params: dict[str, Any], name: str) -> None:
    with pytest.raises(RequestError, match=name) as caught:
        parsed(**params)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "params",
    [
        {"logprobs": True},
        {"presence_penalty": 0.5},
        {"logit_bias": {"5": 1}},
        {"response_format": {"type": "json_object"}},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function"}},
        {"reasoning": {"effort": "low"}},
        {"verbosity": "low"},
        {"of_a_newer_sdk": 1},
        {"temperature": 0.7},
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_left_out_and_noted_once(
    params: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    left_out._note.cache_clear()
    for _ in range(2):
        found = ChatRequest.parse({"messages": [USER], **params}, DEFAULTS, temperature=1.0)
        assert found.gconfig == DEFAULTS.new(n_samples=1)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{next(iter(params))} of a request is left out: ")


def test_greedy_answers_count_as_temperature_1() -> None:
    params = {"messages": [USER], "temperature": 0}
    assert ChatRequest.parse(params, DEFAULTS, temperature=1.0).gconfig.greedy
    assert not ChatRequest.parse(params, DEFAULTS, temperature=0.5).gconfig.greedy


def test_tools() -> None:
    tool = {"type": "function", "function": {"name": "add"}}
    assert parsed(tools=[tool]).tools == [tool]
    assert parsed(tools=[tool], tool_choice="none").tools == []
    assert parsed(extra_body={"chat_template_kwargs": {"a": 1}}).template_kwargs == {"a": 1}
