"""Reasoning and tool calls in what a model wrote."""

from __future__ import annotations

import json

import pytest

from areal.experimental.openai.parsing import check_parsers, parse_text


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("plain", "", "plain"),
        ("<think>\nhm\n</think>\n\n5", "hm", "5"),
        ("hm\n</think>\n\n5", "hm", "5"),  # opened in the prompt
        ("<think>\nhm", "hm", ""),  # cut off
        ("<think></think>5", "", "5"),
        ("a <think>b", "", "a <think>b"),
        ("\n5\n", "", "\n5\n"),
        ("", "", ""),
    ],
)
def test_reasoning(text: str, reasoning: str, content: str) -> None:
    parsed = parse_text(text, has_reasoning=True, has_tools=False, separates_reasoning=True)
    assert (parsed.reasoning, parsed.content) == (reasoning, content)
    # Unless it is asked for apart, it stays where the model wrote it.
    assert parse_text(text, has_reasoning=True, has_tools=False).content == text
    assert parse_text(text, has_reasoning=False, has_tools=False).content == text


def call(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "add", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "arguments", "content"),
    [
        (call('{"x": {"y": 1}}'), [{"x": {"y": 1}}], ""),
        ("so: " + call('{"x": 1}') + "\n" + call("{}"), [{"x": 1}, {}], "so:"),
        (call('"{\\"x\\": 1}"'), [{"x": 1}], ""),
        ("<tool_call>{broken}</tool_call>", [], "<tool_call>{broken}</tool_call>"),
        ('<tool_call>{"name": 3}</tool_call>', [], '<tool_call>{"name": 3}</tool_call>'),
        ('<tool_call>{"name": "add"', [], '<tool_call>{"name": "add"'),
        (" no call ", [], " no call "),
    ],
)
def test_tool_calls(text: str, arguments: list[object], content: str) -> None:
    parsed = parse_text(text, has_reasoning=True, has_tools=True)
    found = [each["function"] for each in parsed.tool_calls]
    assert [json.loads(each["arguments"]) for each in found] == arguments
    assert {each["name"] for each in found} <= {"add"}
    assert parsed.content == content
    assert len({each["id"] for each in parsed.tool_calls}) == len(arguments)


def test_unknown_parsers() -> None:
    check_parsers("", "")
    with pytest.raises(ValueError, match="tool_call_parser 'qwem'; known: qwen"):
        check_parsers("qwem", "")
    with pytest.raises(ValueError, match="reasoning_parser 'x'"):
        check_parsers("qwen", "x")


def test_no_tool_is_called_while_the_model_thinks() -> None:
    text = f"<think>maybe {call('{}')}</think>\nso {call('{}')}"
    parsed = parse_text(text, has_reasoning=True, has_tools=True)
    assert len(parsed.tool_calls) == 1
    assert parsed.content == f"<think>maybe {call('{}')}</think>\nso"
