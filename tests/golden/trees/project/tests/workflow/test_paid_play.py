"""Tests of ``my_rl.workflow.paid_play``."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import pytest
from areal.api.cli_args import GenerationHyperparameters
from areal.testing import ScriptedEngine, check_trajectory, make_tokenizer

import my_rl.workflow.paid_play as module


# YOURS: make it speak and act as your environment does, and change the replies in the tests
class GuessEnv(gymnasium.Env):
    """Asks for its number, 7; a guess of 0 ends it, and a guess of 9 breaks it."""

    action_space = gymnasium.spaces.Discrete(10)

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.log.append((seed, options))
        return "Guess my number.", {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == 9:
            raise RuntimeError("broken")
        self.log.append(action)
        reward = 1.0 - abs(action - 7) / 4
        return "higher" if action < 7 else "lower", reward, action == 7, action == 0, {}

    def close(self) -> None:
        self.log.append("closed")


def play(*replies: str | None, **kwargs: Any) -> tuple[ScriptedEngine, list[Any], Any]:
    tokenizer, log = make_tokenizer(), []
    engine, gconfig = ScriptedEngine(tokenizer, *replies), GenerationHyperparameters()
    kwargs = {"system_prompt": "Play.", "max_turns": 3, "turn_discount": 0.5, **kwargs}
    workflow_class = module.PaidPlayWorkflow
    workflow = workflow_class(gconfig, tokenizer, GuessEnv, {"log": log}, **kwargs)
    row = {"seed": 3, "options": {"level": 1}}
    try:
        return engine, log, asyncio.run(workflow.arun_episode(engine, row))
    finally:
        assert log[-1] == "closed"


def test_plays_until_the_environment_has_ended() -> None:
    engine, log, trajectory = play("5", "7")
    assert log == [(3, {"level": 1}), 5, 7, "closed"]
    assert trajectory["rewards"].tolist() == [0.5 + 0.5 * 1.0]
    start = "<system>Play.<eos><user>Guess my number.<eos><assistant>"
    prompts = [engine.tokenizer.decode(request.input_ids) for request in engine.requests]
    assert prompts == [start, f"{start}5<eos><user>higher<eos><assistant>"]


@pytest.mark.parametrize("first", ["5", "12 is too much", None])
def test_trains_on_every_action_and_on_nothing_else(first: str | None) -> None:
    engine, _, trajectory = play(first, "7")
    assert len(engine.requests) == 2
    check_trajectory(engine, trajectory)


def test_what_is_no_action_costs_a_turn() -> None:
    engine, log, _ = play("banana", "99", "7")
    assert log[1:] == [7, "closed"]
    assert module.NO_ACTION in engine.tokenizer.decode(engine.requests[2].input_ids)


@pytest.mark.parametrize(("replies", "max_turns"), [("0", 3), ("11", 2)])
def test_ends_where_the_environment_or_the_turns_end(replies: str, max_turns: int) -> None:
    engine, log, _ = play(*replies, max_turns=max_turns)
    assert len(engine.requests) == len(log) - 2 == len(replies)


def test_an_environment_that_fails_rejects_the_episode() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        play("9")


@pytest.mark.parametrize("kwargs", [{"max_turns": 0}, {"turn_discount": 0}, {"turn_discount": 1.5}])
def test_refuses_impossible_settings(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_turns"):
        play("7", **kwargs)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "gymnasium.envs.toy_text.FrozenLakeEnv"])
def test_takes_an_id_or_a_dotted_path(env: str) -> None:
    workflow_class = module.PaidPlayWorkflow
    kwargs = {"env": env, "env_kwargs": {"map_name": "8x8"}}
    made = workflow_class(GenerationHyperparameters(), make_tokenizer(), **kwargs).make_env()
    assert made.observation_space.n == 64
    made.close()
