"""Tests of ``my_rl.workflow.plain_turns``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import InlineReward, ScriptedEngine, check_trajectory, is_right, make_tokenizer

import my_rl.workflow.plain_turns as module

# YOURS: add a wrong completion and words that your feedback to it holds
FEEDBACK_CASES = [
    ("6", "wrong"),
]


def run_episode(
    monkeypatch: pytest.MonkeyPatch,
    *replies: str | None,
    max_turns: int = 2,
    discount: float = 0.5,
) -> tuple[ScriptedEngine, dict[str, Any]]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    tokenizer, gconfig = make_tokenizer(), GenerationHyperparameters()
    workflow_class = module.PlainTurnsWorkflow
    workflow = workflow_class(is_right, gconfig, tokenizer, max_turns, discount)
    engine = ScriptedEngine(tokenizer, *replies)
    episode = workflow.arun_episode(
        engine, {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}
    )
    return engine, asyncio.run(episode)


@pytest.mark.parametrize(
    ("replies", "max_turns", "reward"),
    [("5", 3, 1.0), ("65", 3, 0.5), ("67", 2, 0.0), ((None, "5"), 2, 0.5), ((None,), 1, 0.0)],
)
def test_trains_on_every_turn_up_to_the_first_right_one(
    monkeypatch: pytest.MonkeyPatch, replies: Any, max_turns: int, reward: float
) -> None:
    engine, trajectory = run_episode(monkeypatch, *replies, max_turns=max_turns)
    assert len(engine.requests) == len(replies)
    assert trajectory["rewards"].tolist() == [reward]
    check_trajectory(engine, trajectory)


@pytest.mark.parametrize(("completion", "expected"), FEEDBACK_CASES)
def test_the_next_turn_reads_the_feedback(
    monkeypatch: pytest.MonkeyPatch, completion: str, expected: str
) -> None:
    engine, _ = run_episode(monkeypatch, completion, "5")
    prompt = engine.tokenizer.decode(engine.requests[1].input_ids)
    start, answered, rest = prompt.partition(f"<assistant>{completion}<eos>")
    assert answered, start
    assert rest.startswith("<user>")
    assert rest.endswith("<eos><assistant>")
    assert expected in rest


@pytest.mark.parametrize(("max_turns", "discount"), [(0, 1.0), (1, 0.0), (1, 1.5)])
def test_refuses_impossible_settings(
    monkeypatch: pytest.MonkeyPatch, max_turns: int, discount: float
) -> None:
    with pytest.raises(ValueError, match="max_turns"):
        run_episode(monkeypatch, "5", max_turns=max_turns, discount=discount)
