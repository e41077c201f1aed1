"""Tests of ``my_rl.workflow.plain_agent``."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from areal.testing import ChatServer, InlineReward, is_right

pytest.importorskip("openai")

import my_rl.workflow.plain_agent as module

# YOURS: add a wrong completion and words that your feedback to it holds
FEEDBACK_CASES = [
    ("6", "wrong"),
]
ROW = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ChatServer("").running() as found:
        yield found


def run_episode(server: ChatServer, *replies: str | None, **kwargs: Any) -> float:
    server.replies = list(replies)
    agent, row = module.PlainAgentWorkflow(is_right, **kwargs), copy.deepcopy(ROW)
    reward = asyncio.run(agent.run(row, base_url=server.url, api_key="key"))
    assert row == ROW, "the samples of a group share their row"
    assert len(server.requests) == len(replies)
    return reward


@pytest.mark.parametrize(
    ("replies", "max_turns", "reward"),
    [("5", 3, 1.0), ("65", 3, 1.0), ("67", 2, 0.0), ((None, ""), 2, 0.0)],
)
def test_tries_until_the_answer_is_right_or_the_turns_are_used_up(
    server: ChatServer, replies: Any, max_turns: int, reward: float
) -> None:
    found = run_episode(server, *replies, max_turns=max_turns)
    assert (found, type(found)) == (reward, float)
    assert {request["path"] for request in server.requests} == {"/chat/completions"}
    assert {request["authorization"] for request in server.requests} == {"Bearer key"}


@pytest.mark.parametrize(("completion", "expected"), FEEDBACK_CASES)
def test_the_next_turn_reads_the_answer_and_the_feedback(
    server: ChatServer, completion: str, expected: str
) -> None:
    run_episode(server, completion, "5", max_turns=2)
    first, second = (request["messages"] for request in server.requests)
    assert first == ROW["messages"]
    assert second[: len(first)] == first
    said, feedback = second[len(first) :]
    assert said == {"role": "assistant", "content": completion}
    assert feedback["role"] == "user"
    assert expected in feedback["content"]


def test_sampling_goes_with_every_request(server: ChatServer) -> None:
    run_episode(server, "6", "5", max_turns=2, max_completion_tokens=7)
    assert [request["max_completion_tokens"] for request in server.requests] == [7, 7]


def test_a_process_of_its_own_needs_the_environment_alone(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    server.replies = ["5"]
    agent = pickle.loads(pickle.dumps(module.PlainAgentWorkflow(is_right)))
    assert asyncio.run(agent.run(dict(ROW))) == 1.0
