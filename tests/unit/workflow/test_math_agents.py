"""The agents that ship, each through its own SDK against the proxy."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from areal.api.cli_args import AgentConfig, InferenceEngineConfig
from areal.experimental.openai import AgentProxy
from areal.infra import WorkflowExecutor
from areal.utils.dynamic_import import import_from_string
from tests.unit.experimental.openai.scripted import ScriptedEngine, make_tokenizer

ANSWERING = [
    "areal.workflow.openai.math_agent.MathAgent",
    "areal.workflow.openai.math_agent.MultiTurnMathAgent",
    "areal.workflow.openai.math_agent.MathToolAgent",
    "areal.workflow.langchain.math_agent.MathAgent",
    "areal.workflow.langchain.math_agent.MathToolAgent",
    "areal.workflow.anthropic.math_agent.MathAgent",
]
CALCULATING = [path for path in ANSWERING if path.endswith("ToolAgent")]
ROW = {"messages": [{"role": "user", "content": "2+3"}], "answer": "so it is\n#### 5"}
RIGHT = "The answer is \\boxed{5}."
TEMPLATE = (
    "{% if tools %}[tools:{{ tools | length }}]{% endif %}"
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"
)


@pytest.fixture
def engine() -> ScriptedEngine:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = TEMPLATE
    return ScriptedEngine(tokenizer)


@pytest.fixture
def play(engine: ScriptedEngine) -> Iterator[Any]:
    """Returns how to run one episode of an agent; it gives back what is trained on."""
    proxy = AgentProxy(engine, engine.tokenizer, AgentConfig())
    proxy.start()
    executor = WorkflowExecutor(InferenceEngineConfig(max_concurrent_rollouts=1), engine)
    executor.agent_wrapper = proxy.wrap
    executor.initialize()

    def play(path: str, *texts: str, **kwargs: Any) -> list[float]:
        engine.texts = list(texts)
        (found,) = executor.rollout_batch([ROW], import_from_string(path), kwargs)
        assert not engine.texts, "the agent asked too seldom"
        return found["rewards"].tolist()

    yield play
    executor.destroy()
    proxy.stop()


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.mark.parametrize("path", ANSWERING)
def test_a_right_answer_is_worth_one(play: Any, engine: ScriptedEngine, path: str) -> None:
    options = {"temperature": 1.0, "top_p": 1.0, "max_completion_tokens": 50, "max_turns": 3}
    assert play(path, RIGHT, **options) == [1.0]
    assert engine.prompt(0).endswith("[user]2+3[assistant]")
    assert engine.requests[0].gconfig.max_new_tokens == 50


@pytest.mark.parametrize("path", ANSWERING)
def test_a_wrong_answer_is_worth_nothing(play: Any, path: str) -> None:
    turns = 2 if "MultiTurn" in path else 1
    assert play(path, *["\\boxed{6}"] * turns, max_turns=2) == [0.0] * turns


def test_another_turn_follows_a_wrong_answer(play: Any, engine: ScriptedEngine) -> None:
    rewards = play("areal.workflow.openai.math_agent.MultiTurnMathAgent", "6", RIGHT)
    assert rewards == [1.0, 1.0]
    assert "[assistant]6[user]Your answer is wrong" in engine.prompt(1)


@pytest.mark.parametrize("path", CALCULATING)
def test_tools_are_called_and_their_results_are_read(
    play: Any, engine: ScriptedEngine, path: str
) -> None:
    assert play(path, call("add", a=2, b=3), RIGHT) == [1.0, 1.0]
    assert engine.prompt(0).startswith("[tools:4]")
    assert "[tool]5" in engine.prompt(1)


@pytest.mark.parametrize("path", CALCULATING)
def test_calls_that_go_wrong_are_told_to_the_model(
    play: Any, engine: ScriptedEngine, path: str
) -> None:
    assert play(path, call("divide", a=1, b=0), call("add", a="two"), RIGHT) == [1.0] * 3
    assert "b is zero" in engine.prompt(1)


@pytest.mark.parametrize("path", CALCULATING)
def test_who_never_answers_gets_nothing(play: Any, path: str) -> None:
    assert play(path, *[call("add", a=1, b=1)] * 3, max_turns=3) == [0.0] * 3


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("openai.math_agent", "openai", "agents"),
        ("langchain.math_agent", "langchain_openai", "agents"),
        ("anthropic.math_agent", "anthropic", "agents"),
        ("anthropic.claude_math_agent", "claude_agent_sdk", "claude-agent"),
    ],
)
def test_a_missing_sdk_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"areal.workflow.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install 'areal-lite[{extra}]'")):
        importlib.import_module(f"areal.workflow.{module}")
