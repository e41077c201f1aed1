"""Does the agent on Claude's own loop solve problems through the proxy, with its real client?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.experimental.openai.scripted import ScriptedEngine
from tests.unit.workflow.test_math_agents import RIGHT, call, engine, play

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("sdk")]

__all__ = ["engine", "play"]  # pytest finds fixtures by name in the module that uses them

AGENT = "areal.workflow.anthropic.claude_math_agent.MathToolAgent"


@pytest.fixture
def sdk(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the SDK importable; all that both environments have comes from this one."""
    (site,) = (clients / "python").glob("lib/python*/site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])


def test_a_right_answer_is_worth_one(play: Any, engine: ScriptedEngine) -> None:
    assert play(AGENT, RIGHT, max_completion_tokens=50) == [1.0]
    assert engine.requests[0].gconfig.max_new_tokens == 50
    assert "[user]2+3" in engine.prompt(0)
    assert str(Path.cwd()) not in engine.prompt(0)


def test_tools_are_called_and_their_results_are_read(play: Any, engine: ScriptedEngine) -> None:
    assert play(AGENT, call("mcp__math__add", a=2, b=3), RIGHT) == [1.0, 1.0]
    assert engine.prompt(1).endswith("[tool]5[assistant]")


def test_who_never_answers_gets_nothing(play: Any) -> None:
    turns = [call("mcp__math__add", a=1, b=1)] * 2
    assert play(AGENT, *turns, max_turns=2) == [0.0, 0.0]
