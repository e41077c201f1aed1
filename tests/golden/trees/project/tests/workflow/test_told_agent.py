"""Tests of ``my_rl.workflow.told_agent``."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("openai")

import my_rl.workflow.told_agent as module

FEEDBACK_CASES = [
    ("6", 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""'),
]
ROW = {"messages": [{"role": "user", "content": "2+3?"}], "answer": "5"}


class Server(ThreadingHTTPServer):
    """Is an OpenAI-compatible server on this machine; it says prepared texts in turn."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        message = {"role": "assistant", "content": self.replies.pop(0)}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "default"}
        return {**head, "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        about = {"path": self.path, "authorization": self.headers["Authorization"]}
        body = json.dumps(self.server.answer({**request, **about})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


class InlineReward:
    """Calls the reward in this process; the pool of processes has tests of its own."""

    def __init__(self, reward_fn: Callable[..., float]) -> None:
        self.reward_fn = reward_fn

    async def __call__(self, *args: Any, **kwargs: Any) -> float:
        return self.reward_fn(*args, **kwargs)


def is_right(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: str,
    **kwargs: Any,
) -> int:
    return int(completions == answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "AsyncRewardWrapper", InlineReward)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def run_episode(server: Server, *replies: str, **kwargs: Any) -> float:
    server.replies = list(replies)
    agent, row = module.ToldAgentWorkflow(is_right, **kwargs), copy.deepcopy(ROW)
    reward = asyncio.run(agent.run(row, base_url=server.url, api_key="key"))
    assert row == ROW, "the samples of a group share their row"
    assert server.replies == [], "the agent asked less often than it should"
    return reward


@pytest.mark.parametrize(
    ("replies", "max_turns", "reward"),
    [("5", 3, 1.0), ("65", 3, 1.0), ("67", 2, 0.0), ("6", 1, 0.0)],
)
def test_tries_until_the_answer_is_right_or_the_turns_are_used_up(
    server: Server, replies: str, max_turns: int, reward: float
) -> None:
    found = run_episode(server, *replies, max_turns=max_turns)
    assert (found, type(found)) == (reward, float)
    assert {request["path"] for request in server.requests} == {"/chat/completions"}
    assert {request["authorization"] for request in server.requests} == {"Bearer key"}


@pytest.mark.parametrize(("completion", "expected"), FEEDBACK_CASES)
def test_the_next_turn_reads_the_answer_and_the_feedback(
    server: Server, completion: str, expected: str
) -> None:
    run_episode(server, completion, "5", max_turns=2)
    first, second = (request["messages"] for request in server.requests)
    assert first == [{"role": "system", "content": module.SYSTEM_PROMPT}, *ROW["messages"]]
    assert second[: len(first)] == first
    said, feedback = second[len(first) :]
    assert said == {"role": "assistant", "content": completion}
    assert feedback["role"] == "user"
    assert expected in feedback["content"]


def test_sampling_goes_with_every_request(server: Server) -> None:
    run_episode(server, "6", "5", max_turns=2, max_completion_tokens=7)
    assert [request["max_completion_tokens"] for request in server.requests] == [7, 7]


def test_a_process_of_its_own_needs_the_environment_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    server.replies = ["5"]
    agent = pickle.loads(pickle.dumps(module.ToldAgentWorkflow(is_right)))
    assert asyncio.run(agent.run(dict(ROW))) == 1.0
