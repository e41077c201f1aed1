"""The proxy over real HTTP: every route, who may use it, and what errors look like."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import openai
import pytest

from areal.api.errors import NoRoomError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.experimental.openai.proxy import ProxyServer
from areal.experimental.openai.recorder import Recorder
from areal.infra import workflow_context
from areal.infra.workflow_context import WorkflowContext
from tests.unit.experimental.openai.scripted import USER, ScriptedEngine, make_tokenizer

ADMIN = "the-admin-key"
TOKENIZER = make_tokenizer()


class Engine(ScriptedEngine):
    """Notes for which episode it answers; "?" breaks it, "..." hangs until it is cancelled."""

    def __init__(self) -> None:
        super().__init__(TOKENIZER)
        self.episodes: list[WorkflowContext] = []
        self.was_cancelled = threading.Event()
        self.is_asked = threading.Event()

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        self.episodes.append(workflow_context.get())
        self.is_asked.set()
        if self.texts[0] == "?":
            raise RuntimeError("the engine broke")
        if self.texts[0] == "full":
            raise NoRoomError("the prompt leaves no room to answer")
        if self.texts[0] == "...":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.was_cancelled.set()
                raise
        return await super().agenerate(req)


@dataclass
class Proxy:
    server: ProxyServer
    address: str
    engine: Engine
    contexts: list[WorkflowContext] = field(default_factory=list)

    def post(self, path: str, key: str = ADMIN, **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.post(f"{self.address}{path}", json=body, headers=headers, trust_env=False)

    def start(self, **body: Any) -> dict[str, str]:
        assert self.post("/grant_capacity").status_code == 200
        answer = self.post("/rl/start_session", **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sdk(self, key: str) -> openai.OpenAI:
        http_client = openai.DefaultHttpxClient(trust_env=False)
        return openai.OpenAI(base_url=self.address, api_key=key, http_client=http_client)


def serve(is_online: bool = False, timeout_s: float = 60) -> Iterator[Proxy]:
    engine, contexts = Engine(), []

    def make(context: WorkflowContext) -> Recorder:
        contexts.append(context)
        return Recorder(engine, TOKENIZER)

    server = ProxyServer(make, ADMIN, timeout_s, is_online)
    address = server.start()
    yield Proxy(server, address, engine, contexts)
    server.stop()
    server.stop()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    yield from serve()


@pytest.fixture
def online() -> Iterator[Proxy]:
    yield from serve(is_online=True)


def test_an_episode_from_start_to_export(proxy: Proxy) -> None:
    proxy.engine.texts = ["4", "5"]
    assert httpx.get(f"{proxy.address}/health", trust_env=False).json()["status"] == "ok"
    session = proxy.start(task_id=3, sample_idx=1, is_eval=True)
    with proxy.sdk(session["api_key"]) as client:
        first = client.chat.completions.create(model="m", messages=[USER])
        said = first.choices[0].message
        second = client.chat.completions.create(
            model="m", messages=[USER, said, {"role": "user", "content": "no"}]
        )
    assert (said.content, second.choices[0].message.content) == ("4", "5")
    assert proxy.engine.episodes == [WorkflowContext(True, 3, 1)] * 2
    key = session["api_key"]
    assert proxy.post("/rl/set_reward", key, interaction_id=first.id, reward=0.5).is_success
    assert proxy.post("/rl/set_reward", key, interaction_id=None, reward=1).is_success
    assert proxy.post("/rl/end_session", key).json()["interaction_count"] == 2
    exported = proxy.post("/export_trajectories", session_id=session["session_id"]).json()
    one, two = exported["interactions"]
    assert (one["id"], two["id"], two["parent"]) == (first.id, second.id, first.id)
    assert (one["reward"], two["reward"]) == (0.5, 1.0)
    assert one["output_tokens"] == [*proxy.engine.encode("4"), TOKENIZER.eos_token_id]
    assert one["output_logprobs"] == [-0.5, -0.75]
    assert two["input_tokens"] == proxy.engine.requests[1].input_ids
    assert len(proxy.server.sessions) == 0


def test_streams(proxy: Proxy) -> None:
    proxy.engine.texts = ["so 5"]
    with proxy.sdk(proxy.start()["api_key"]) as client:
        stream = client.chat.completions.create(
            model="m", messages=[USER], stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "so 5"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


def test_the_responses_route(proxy: Proxy) -> None:
    proxy.engine.texts = ["5"]
    with proxy.sdk(proxy.start()["api_key"]) as client:
        response = client.responses.create(model="m", input="2+3", instructions="Add.")
    assert response.output_text == "5"
    assert proxy.engine.prompt(0) == "[system]Add.[user]2+3[assistant]"


@pytest.mark.parametrize(
    ("session_key", "status"), [(True, 200), (False, 401), ("", 401), (ADMIN, 401)]
)
def test_agents_need_the_key_of_their_session(
    proxy: Proxy, session_key: bool | str, status: int
) -> None:
    proxy.engine.texts = ["5"]
    own = proxy.start()["api_key"]
    key = own if session_key is True else session_key or "other"
    answer = proxy.post("/chat/completions", key, messages=[USER])
    assert answer.status_code == status
    if status == 401:
        assert answer.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("path", ["/rl/start_session", "/export_trajectories", "/grant_capacity"])
def test_trainers_need_the_admin_key(proxy: Proxy, path: str) -> None:
    key = proxy.start()["api_key"]
    assert proxy.post(path, key).status_code == 401
    assert httpx.post(f"{proxy.address}{path}", trust_env=False).status_code == 401


def test_sessions_begin_against_grants(proxy: Proxy) -> None:
    refused = proxy.post("/rl/start_session", task_id="3")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert proxy.post("/grant_capacity", n=2).json() == {"capacity": 2}
    codes = [proxy.post("/rl/start_session", task_id="3").status_code for _ in range(3)]
    assert codes == [200, 200, 429]


def test_a_session_that_has_ended_is_closed(proxy: Proxy) -> None:
    kept, discarded = proxy.start(), proxy.start()
    early = proxy.post("/export_trajectories", session_id=kept["session_id"])
    assert (early.status_code, early.json()["error"]["param"]) == (400, "session_id")
    assert proxy.post("/rl/end_session", kept["api_key"]).is_success
    assert proxy.post("/rl/end_session", discarded["api_key"], discard=True).is_success
    for session in (kept, discarded):
        answer = proxy.post("/chat/completions", session["api_key"], messages=[USER])
        assert answer.status_code == 401
    statuses = [
        proxy.post("/export_trajectories", session_id=each["session_id"]).status_code
        for each in (kept, discarded, kept)
    ]
    assert statuses == [200, 404, 404]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/chat/completions", {}, 400, "messages"),
        ("/chat/completions", {"messages": [USER], "n": 2}, 400, "n is 2"),
        ("/chat/completions", {"messages": [USER], "temperature": -1}, 400, "temperature"),
        ("/responses", {"input": 3}, 400, "input"),
        ("/rl/set_reward", {"reward": 1.0}, 400, "nothing to reward"),
        ("/v1/chat/completions", {}, 404, "Not Found"),
    ],
)
def test_errors_look_like_openais(
    proxy: Proxy, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    answer = proxy.post(path, proxy.start()["api_key"], **body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert words in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"reward": 1.0}, 200),
        ({"reward": -1, "interaction_id": None}, 200),
        ({"reward": True}, 400),
        ({"reward": "1"}, 400),
        ({"reward": float("nan")}, 400),
        ({}, 400),
        ({"reward": 10**400}, 400),
        ({"reward": 1.0, "interaction_id": "x"}, 404),
        ({"reward": 1.0, "interaction_id": []}, 400),
    ],
)
def test_rewards_are_checked(proxy: Proxy, body: dict[str, Any], status: int) -> None:
    proxy.engine.texts = ["5"]
    key = proxy.start()["api_key"]
    assert proxy.post("/chat/completions", key, messages=[USER]).is_success
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    answer = httpx.post(
        f"{proxy.address}/rl/set_reward", content=json.dumps(body), headers=headers, trust_env=False
    )
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b"\xff", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
    ],
)
def test_bodies_that_are_no_objects(proxy: Proxy, content: bytes, words: str) -> None:
    headers = {"Authorization": f"Bearer {proxy.start()['api_key']}"}
    answer = httpx.post(
        f"{proxy.address}/chat/completions", content=content, headers=headers, trust_env=False
    )
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "text/plain; charset=none"}, {"Content-Encoding": "gzip"}], ids=str
)
def test_bodies_that_are_not_what_their_headers_say(proxy: Proxy, headers: dict[str, str]) -> None:
    answer = httpx.post(
        f"{proxy.address}/chat/completions",
        content=json.dumps({"messages": [USER]}),
        headers={"Authorization": f"Bearer {proxy.start()['api_key']}", **headers},
        trust_env=False,
    )
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/responses", {"input": "2+3", "tools": 5}),
        ("/responses", {"input": "2+3", "previous_response_id": []}),
        ("/responses", {"input": [{"type": "reasoning", "content": 5}]}),
        ("/v1/messages", {"messages": [5]}),
        ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}),
        ("/v1/messages", {"messages": [USER], "system": 5}),
        ("/v1/messages", {"messages": [USER], "thinking": 5}),
    ],
)
def test_malformed_requests_are_their_senders_fault(
    proxy: Proxy, path: str, body: dict[str, Any]
) -> None:
    answer = proxy.post(path, proxy.start()["api_key"], **body)
    assert answer.status_code == 400
    assert "malformed" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [{"session_id": []}, {"rewards": 5}, {"rewards": [5]}, {"rewards": [["no", 1.0]]}]
)
def test_malformed_exports_end_nothing(proxy: Proxy, body: dict[str, Any]) -> None:
    session = proxy.start()
    answer = proxy.post("/export_trajectories", **{"session_id": session["session_id"], **body})
    assert answer.status_code == 400
    assert proxy.post("/rl/end_session", session["api_key"]).is_success


def test_what_programs_without_the_sdk_look_for_is_there(proxy: Proxy) -> None:
    proxy.engine.texts = ['<tool_call>{"name": "f", "arguments": {}}</tool_call>']
    tools = [{"type": "function", "function": {"name": "f"}}]
    key = proxy.start()["api_key"]
    answer = proxy.post("/chat/completions", key, messages=[USER], tools=tools)
    (choice,) = answer.json()["choices"]
    assert choice["logprobs"] is None
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_an_engine_that_breaks_is_not_asked_again(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.engine.texts = ["?"]
    with (
        proxy.sdk(proxy.start()["api_key"]) as client,
        pytest.raises(openai.InternalServerError, match="the engine broke"),
    ):
        client.chat.completions.create(model="m", messages=[USER])
    assert len(proxy.engine.episodes) == 1
    assert "/chat/completions failed" in caplog.text


def test_a_prompt_that_fills_the_context_is_its_senders_fault(proxy: Proxy) -> None:
    proxy.engine.texts = ["full"]
    answer = proxy.post("/chat/completions", proxy.start()["api_key"], messages=[USER])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_who_hangs_up_stops_the_generation(proxy: Proxy) -> None:
    proxy.engine.texts = ["..."]
    key = proxy.start()["api_key"]

    async def hang_up() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            headers = {"Authorization": f"Bearer {key}"}
            url = f"{proxy.address}/chat/completions"
            call = client.post(url, json={"messages": [USER]}, headers=headers)
            task = asyncio.ensure_future(call)
            await asyncio.to_thread(proxy.engine.is_asked.wait, 10)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(hang_up())
    assert proxy.engine.was_cancelled.wait(10)


def test_an_idle_session_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    for proxy in serve(timeout_s=0.2):
        key = proxy.start()["api_key"]
        deadline = time.monotonic() + 20
        while len(proxy.server.sessions) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert proxy.post("/rl/end_session", key).status_code == 401
    assert "was idle for 0.2 s" in caplog.text


def ask_aside(proxy: Proxy, key: str) -> tuple[threading.Thread, list[httpx.Response]]:
    """Sends a request that hangs, and returns once the engine has it."""
    proxy.engine.texts, answers = ["..."], []

    def ask() -> None:
        answers.append(proxy.post("/chat/completions", key, messages=[USER]))

    thread = threading.Thread(target=ask)
    thread.start()
    assert proxy.engine.is_asked.wait(10)
    return thread, answers


def test_a_session_that_waits_for_its_answer_is_not_idle() -> None:
    for proxy in serve(timeout_s=1.0):
        waiting, idle = proxy.start(), proxy.start()
        thread, answers = ask_aside(proxy, waiting["api_key"])
        deadline = time.monotonic() + 20
        while len(proxy.server.sessions) > 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert proxy.post("/rl/end_session", idle["api_key"]).status_code == 401
        assert proxy.post("/rl/end_session", waiting["api_key"]).is_success
        thread.join(10)
        assert [answer.status_code for answer in answers] == [401]


def test_a_session_that_ends_stops_its_generations(proxy: Proxy) -> None:
    session = proxy.start()
    thread, answers = ask_aside(proxy, session["api_key"])
    assert proxy.post("/rl/end_session", session["api_key"]).is_success
    assert proxy.engine.was_cancelled.wait(10)
    thread.join(10)
    assert [answer.status_code for answer in answers] == [401]


def test_a_program_that_is_gone_leaves_its_place_to_another() -> None:
    for proxy in serve(is_online=True, timeout_s=1.0):
        proxy.start()
        deadline = time.monotonic() + 20
        while len(proxy.server.sessions) and time.monotonic() < deadline:
            time.sleep(0.02)
        second = proxy.post("/rl/start_session")
        assert second.is_success
        assert proxy.post("/rl/start_session").status_code == 429
        key = second.json()["api_key"]
        assert proxy.post("/rl/end_session", key, discard=True).is_success
        assert proxy.post("/rl/start_session").is_success


def test_online_sessions_are_waited_for(online: Proxy) -> None:
    online.engine.texts = ["4", "5"]
    sessions = [online.start(), online.start()]
    exported: list[Any] = []
    url, headers = f"{online.address}/export_trajectories", {"Authorization": f"Bearer {ADMIN}"}

    def fetch() -> None:
        answer = httpx.post(url, headers=headers, timeout=20, trust_env=False)
        exported.append(answer.json()["session_id"])

    early = threading.Thread(target=fetch)
    early.start()
    for session in sessions:
        online.post("/chat/completions", session["api_key"], messages=[USER])
        assert online.post("/rl/end_session", session["api_key"]).is_success
    early.join(20)
    fetch()
    assert exported == [session["session_id"] for session in sessions]


def test_a_client_may_choose_its_key_and_use_it_again(online: Proxy) -> None:
    online.engine.texts = ["4", "5"]
    own: dict[str, Any] = {"api_key": "mine"}
    first = online.start(**own)
    assert online.post("/grant_capacity").is_success
    running = online.post("/rl/start_session", **own)
    assert running.status_code == 409
    assert "end it first" in running.text
    with online.sdk("mine") as client:
        assert client.chat.completions.create(model="m", messages=[USER])
    assert online.post("/rl/set_reward", "mine", reward=1.0).is_success
    assert online.post("/rl/end_session", "mine").json()["interaction_count"] == 1
    assert online.post("/rl/set_reward", "mine", reward=1.0).status_code == 401
    # The first one still waits to be fetched, and loses nothing to the second.
    second = online.start(**own)
    assert online.post("/chat/completions", "mine", messages=[USER]).is_success
    assert online.post("/rl/end_session", "mine").is_success
    for session, reward, text in ((first, 1.0, "4"), (second, None, "5")):
        exported = online.post("/export_trajectories").json()
        assert exported["session_id"] == session["session_id"]
        (interaction,) = exported["interactions"]
        assert interaction["reward"] == reward
        assert interaction["output_message_list"][0]["content"] == text


@pytest.mark.parametrize("api_key", [ADMIN, "", 5])
def test_keys_that_open_no_session(online: Proxy, api_key: Any) -> None:
    assert online.post("/grant_capacity").is_success
    answer = online.post("/rl/start_session", api_key=api_key)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "api_key"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(proxy: Proxy) -> None:
    key = proxy.start()["api_key"]
    host, _, port = proxy.address.removeprefix("http://").partition(":")
    head = (
        f"POST /chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 60000000\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode())  # and nothing of the body
        assert b" 413 " in connection.recv(200)


# --- Anthropic's route --------------------------------------------------------------------------


CALL = '<tool_call>{"name": "add", "arguments": {"x": 5}}</tool_call>'


def test_messages_with_tools(proxy: Proxy) -> None:
    proxy.engine.texts = [f"so {CALL}", "5"]
    key = proxy.start()["api_key"]
    tools = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
    body: dict[str, Any] = {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Add."}],
        "tools": tools,
        "messages": [USER],
    }
    headers = {"x-api-key": key}
    url = f"{proxy.address}/v1/messages"
    message = httpx.post(url, json=body, headers=headers, trust_env=False).json()
    assert message["stop_reason"] == "tool_use"
    text, use = message["content"]
    assert (text["text"], use["name"], use["input"]) == ("so", "add", {"x": 5})
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "5"}
    body["messages"] += [
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [result]},
    ]
    last = httpx.post(url, json=body, headers=headers, trust_env=False).json()
    assert last["content"] == [{"type": "text", "text": "5"}]
    expected = "[user]2+3[assistant]so<tool_call>add 5</tool_call><eos>[tool]5[assistant]"
    assert proxy.engine.prompt(1) == "[tools:1][system]Add." + expected
    assert proxy.engine.requests[0].gconfig.max_new_tokens == 9
    assert proxy.post("/rl/set_reward", key, interaction_id=last["id"], reward=1.0).is_success


def test_messages_stream(proxy: Proxy) -> None:
    proxy.engine.texts = [f"so {CALL}"]
    tools = [{"name": "add", "input_schema": {}}]
    answer = proxy.post(
        "/v1/messages", proxy.start()["api_key"], messages=[USER], stream=True, tools=tools
    )
    kinds = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert '"partial_json": "{\\"x\\": 5}"' in answer.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "image"),
    ],
)
def test_messages_that_are_refused(proxy: Proxy, body: dict[str, Any], words: str) -> None:
    answer = proxy.post("/v1/messages", proxy.start()["api_key"], **body)
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert words in answer.json()["error"]["message"]


def test_messages_of_newer_sdks_are_served(proxy: Proxy) -> None:
    proxy.engine.texts = ["5"]
    key = proxy.start()["api_key"]
    body = {"messages": [USER], "thinking": {"type": "enabled"}, "container": "x", "max_tokens": 5}
    assert proxy.post("/v1/messages", key, **body).is_success


def test_arguments_of_a_call_that_are_no_object_reach_anthropics_clients(proxy: Proxy) -> None:
    proxy.engine.texts = ['<tool_call>{"name": "add", "arguments": "two and 3"}</tool_call>']
    tools = [{"name": "add", "input_schema": {"type": "object"}}]
    key = proxy.start()["api_key"]
    answer = proxy.post("/v1/messages", key, messages=[USER], tools=tools, max_tokens=5)
    assert answer.json()["content"][0]["input"] == "two and 3"
