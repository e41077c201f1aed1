"""Tests of ``my_rl.workflow.told_agent``: what holds for every agent."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from areal.api import AsyncRewardWrapper

pytest.importorskip("openai")

import my_rl.workflow.told_agent as module

ROW: dict[str, Any] = {
    "messages": [{"role": "user", "content": "2+3?"}],
    "answer": "5",
}
KEY = "the key of one session"


class Server(ThreadingHTTPServer):
    """Is an OpenAI-compatible server on this machine; it says the same to every request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Authorization"]))
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "default"}
        message = {"role": "assistant", "content": "5"}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        body = json.dumps({**head, "choices": [choice]}).encode()
        self.send_response(200 if self.path == "/chat/completions" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


def one(*sample: Any, **row: Any) -> float:
    """Is the reward of every completion."""
    return 1.0


def make_agent() -> Any:
    return module.ToldAgentWorkflow(reward_fn=one, max_turns=2)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    # The pool of processes has tests of its own.
    async def call(self: Any, *sample: Any, **row: Any) -> float:
        return one(*sample, **row)

    monkeypatch.setattr(AsyncRewardWrapper, "__call__", call)
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def check_reward(reward: Any) -> None:
    """Checks one reward for the last answer, or one for each answer by its id."""
    rewards = list(reward.values()) if isinstance(reward, dict) else [reward]
    assert rewards
    assert all(type(each) is float and math.isfinite(each) for each in rewards), reward


def check_requests(server: Server) -> None:
    assert server.requests, "the agent asked nothing"
    assert set(server.requests) == {("/chat/completions", f"Bearer {KEY}")}


def test_asks_the_given_server_and_gives_a_float(server: Server) -> None:
    async def run_episode(row: dict[str, Any]) -> Any:
        async with httpx.AsyncClient() as client:
            return await make_agent().run(row, base_url=server.url, http_client=client, api_key=KEY)

    row = copy.deepcopy(ROW)
    check_reward(asyncio.run(run_episode(row)))
    assert row == ROW, "the samples of a group share their row"
    check_requests(server)


def test_a_process_of_its_own_needs_the_environment_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent = pickle.loads(pickle.dumps(make_agent()))
    check_reward(asyncio.run(agent.run(copy.deepcopy(ROW))))
    check_requests(server)
