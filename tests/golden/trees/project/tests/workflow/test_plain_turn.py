"""Tests of ``my_rl.workflow.plain_turn``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import InlineReward, ScriptedEngine, check_trajectory, is_right, make_tokenizer

import my_rl.workflow.plain_turn as module


def run_episode(
    monkeypatch: pytest.MonkeyPatch, reply: str | None
) -> tuple[ScriptedEngine, dict[str, Any]]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    engine = ScriptedEngine(make_tokenizer(), reply)
    gconfig = GenerationHyperparameters()
    workflow = module.PlainTurnWorkflow(is_right, gconfig, engine.tokenizer)
    row = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}
    trajectory = asyncio.run(workflow.arun_episode(engine, row))
    assert trajectory is not None
    return engine, trajectory


@pytest.mark.parametrize(("reply", "reward"), [("5", 1.0), ("6", 0.0), (None, 0.0)])
def test_trains_on_the_completion_and_on_nothing_else(
    monkeypatch: pytest.MonkeyPatch, reply: str | None, reward: float
) -> None:
    engine, trajectory = run_episode(monkeypatch, reply)
    check_trajectory(engine, trajectory)
    assert trajectory["rewards"].tolist() == [reward]
    prompt = engine.tokenizer.decode(engine.requests[0].input_ids)
    assert prompt.endswith("<user>2+3?<eos><assistant>")


def test_asks_for_one_sample_that_may_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = run_episode(monkeypatch, "5")
    (request,) = engine.requests
    assert request.gconfig.n_samples == 1
    assert engine.tokenizer.eos_token_id in request.gconfig.stop_token_ids
