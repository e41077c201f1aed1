"""Tests of ``my_rl.workflow.told_agent``: what holds for every agent."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from areal.api import AsyncRewardWrapper
from areal.testing import ChatServer

pytest.importorskip("openai")

import my_rl.workflow.told_agent as module

ROW: dict[str, Any] = {
    "messages": [{"role": "user", "content": "2+3?"}],
    "answer": "5",
}
KEY = "the key of one session"


def one(*sample: Any, **row: Any) -> float:
    """Is the reward of every completion."""
    return 1.0


def make_agent() -> Any:
    return module.ToldAgentWorkflow(reward_fn=one, max_turns=2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    # The pool of processes has tests of its own.
    async def call(self: Any, *sample: Any, **row: Any) -> float:
        return one(*sample, **row)

    monkeypatch.setattr(AsyncRewardWrapper, "__call__", call)
    with ChatServer("5").running() as found:
        yield found


def check_reward(reward: Any) -> None:
    """Checks one reward for the last answer, or one for each answer by its id."""
    rewards = list(reward.values()) if isinstance(reward, dict) else [reward]
    assert rewards
    assert all(type(each) is float and math.isfinite(each) for each in rewards), reward


def check_requests(server: ChatServer) -> None:
    assert server.requests, "the agent asked nothing"
    found = {(request["path"], request["authorization"]) for request in server.requests}
    assert found == {("/chat/completions", f"Bearer {KEY}")}


def test_asks_the_given_server_and_gives_a_float(server: ChatServer) -> None:
    async def run_episode(row: dict[str, Any]) -> Any:
        async with httpx.AsyncClient() as client:
            return await make_agent().run(row, base_url=server.url, http_client=client, api_key=KEY)

    row = copy.deepcopy(ROW)
    check_reward(asyncio.run(run_episode(row)))
    assert row == ROW, "the samples of a group share their row"
    check_requests(server)


def test_a_process_of_its_own_needs_the_environment_alone(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent = pickle.loads(pickle.dumps(make_agent()))
    check_reward(asyncio.run(agent.run(copy.deepcopy(ROW))))
    check_requests(server)
