"""Messages: what clients send becomes text, and what is the same compares as the same."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.messages import comparable, for_template, parse_messages

CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "hi"}, {"role": "user", "content": "hi"}),
        ({"role": "developer", "content": "hi"}, {"role": "system", "content": "hi"}),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 2},
            {"role": "user", "content": "aa"},
        ),
        (
            ChatCompletionMessage(role="assistant", content="hi"),
            {"role": "assistant", "content": "hi"},
        ),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
        ),
        (
            {"role": "tool", "content": "3", "tool_call_id": "c"},
            {"role": "tool", "content": "3", "tool_call_id": "c"},
        ),
        (
            {"role": "assistant", "content": "a", "reasoning_content": "b", "audio": None},
            {"role": "assistant", "content": "a", "reasoning_content": "b"},
        ),
    ],
)
def test_parsed(message: Any, expected: dict[str, Any]) -> None:
    assert parse_messages([message]) == [expected]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (None, "at least one message"),
        ([], "at least one message"),
        ("hi", "at least one message"),
        ([{"role": "robot", "content": ""}], "role 'robot'"),
        (["hi"], "role None"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "image_url"),
        ([{"role": "user", "content": 3}], "int"),
        ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], "without a function"),
    ],
)
def test_refused(messages: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        parse_messages(messages)


def test_templates_get_arguments_as_they_were_meant() -> None:
    broken = {**CALL, "function": {"name": "add", "arguments": "{"}}
    given = parse_messages([{"role": "assistant", "tool_calls": [CALL, broken]}])
    calls = for_template(given)[0]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == [{"x": 1}, "{"]
    assert given[0]["tool_calls"][0]["function"]["arguments"] == '{"x": 1}'


def test_spaces_ids_and_reasoning_make_no_difference() -> None:
    other = {"id": "d", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}}
    one = parse_messages([{"role": "assistant", "tool_calls": [CALL], "reasoning_content": "?"}])
    two = parse_messages([{"role": "assistant", "content": "", "tool_calls": [other]}])
    assert comparable(one) == comparable(two)
    other["function"]["arguments"] = '{"x":2}'
    assert comparable(one) != comparable(
        parse_messages([{"role": "assistant", "tool_calls": [other]}])
    )
