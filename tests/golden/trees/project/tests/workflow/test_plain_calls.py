"""Tests of ``my_rl.workflow.plain_calls``, whose tools run in workers as they do in training."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import (
    CHAT,
    InlineReward,
    ScriptedEngine,
    check_trajectory,
    is_right,
    make_tokenizer,
)

import my_rl.workflow.plain_calls as module

# YOURS: a call of each tool, with its name, its arguments and what the model then reads
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("add", {"a": 2, "b": 3}, "5"),
]

CALL = "{% for c in m.tool_calls or [] %}<tool_call>{{c.function|tojson}}</tool_call>{% endfor %}"
TOOL_CHAT = "{{ tools | tojson }}" + CHAT.replace("<eos>", f"{CALL}<eos>", 1)


def call_text(name: str, arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def run_episode(*replies: str | None, **kwargs: Any) -> tuple[ScriptedEngine, dict[str, Any]]:
    engine = ScriptedEngine(make_tokenizer(TOOL_CHAT), *replies)
    workflow_class = module.PlainCallsWorkflow
    workflow = workflow_class(is_right, GenerationHyperparameters(), engine.tokenizer, **kwargs)
    workflow.reward = InlineReward(is_right)
    question = [{"role": "user", "content": "2+3?"}]
    row = {"messages": question, "answer": "5"}
    return engine, asyncio.run(workflow.arun_episode(engine, row))


@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS)
def test_the_next_turn_reads_the_result(
    name: str, arguments: dict[str, Any], expected: str
) -> None:
    call = call_text(name, arguments)
    engine, trajectory = run_episode(call, "5")
    start, end = (engine.tokenizer.decode(request.input_ids) for request in engine.requests)
    assert end == f"{start}{call}<eos><tool>{expected}<eos><assistant>"
    assert f'"name": "{name}"' in start
    assert trajectory["rewards"].tolist() == [1.0]


def test_trains_on_completions_and_on_nothing_else() -> None:
    call = call_text("no_such_tool", {})
    engine, trajectory = run_episode(call + call, "6")
    prompt = engine.tokenizer.decode(engine.requests[1].input_ids)
    assert prompt.count("<tool>Error: no tool is called 'no_such_tool'") == 2
    assert trajectory["rewards"].tolist() == [0.0]
    check_trajectory(engine, trajectory)


@pytest.mark.parametrize(
    ("reply", "max_turns"),
    [
        ("5", 4),
        (None, 4),
        (f"<think>{call_text('add', {})}</think>5", 4),
        (call_text("add", {}), 1),
    ],
)
def test_ends_where_the_calls_or_the_turns_end(reply: str | None, max_turns: int) -> None:
    assert len(run_episode(reply, max_turns=max_turns)[0].requests) == 1


@pytest.mark.parametrize("kwargs", [{"max_turns": 0}, {"tool_timeout_s": 0}, {"tools": []}])
def test_refuses_impossible_settings(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        run_episode("5", **kwargs)
