"""A worker's routes, as they are without a scheduler."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from areal.infra.loop_thread import LoopThread
from areal.infra.rpc import rpc_server, wire
from areal.infra.rpc.rpc_server import RpcServer
from tests.echo_worker import ENGINE, EchoEngine

KEY = "a key"
TIMEOUT_S = 30.0


class Slow(EchoEngine):
    """Waits in a call until it is let go."""

    gate = threading.Event()

    def wait(self) -> int:
        self.num_calls += 1
        assert self.gate.wait(TIMEOUT_S)
        return self.num_calls


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(rpc_server.ENGINES, ENGINE, f"{__name__}:Slow")
    monkeypatch.setattr(rpc_server, "import_from_string", lambda _: Slow)
    Slow.gate.clear()
    thread = LoopThread("rpc")
    thread.start()
    server = RpcServer(KEY)
    host, port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), thread.loop).result(
        TIMEOUT_S
    )
    yield f"http://{host}:{port}"
    Slow.gate.set()
    asyncio.run_coroutine_threadsafe(server.stop(), thread.loop).result(TIMEOUT_S)
    thread.stop()


def post(url: str, path: str, key: str = KEY, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(url + path, content=wire.dump(body), headers=headers, timeout=TIMEOUT_S)


def test_all_but_health_needs_the_key(url: str) -> None:
    assert httpx.get(f"{url}/health").json() == {
        "status": "healthy",
        "engine_count": 0,
        "engines": [],
    }
    for path in ("/call", "/create_engine", "/set_env", "/alloc_ports", "/configure"):
        for key in ("-", "another", KEY + "x"):
            assert post(url, path, key).status_code == 401
    assert post(url, "/create_engine", engine=ENGINE).status_code == 200
    assert httpx.get(f"{url}/health").json()["engines"] == ["engine"]


def test_without_a_key_only_this_machine_may_listen() -> None:
    with pytest.raises(ValueError, match="AREAL_SERVER_KEY"):
        asyncio.run(RpcServer("").start("0.0.0.0", 0))


@pytest.mark.parametrize("path", ["/fork", "/kill_forked_worker", "/data/1"])
def test_no_route_runs_a_command_or_keeps_data(url: str, path: str) -> None:
    assert post(url, path, raw_cmd="true").status_code in (404, 405)


def test_statuses_are_the_contracts(url: str) -> None:
    assert post(url, "/call", method="echo").status_code == 404
    assert post(url, "/create_engine", engine="os.system").status_code == 400
    assert post(url, "/create_engine", engine=ENGINE, engine_name="e").status_code == 200
    assert post(url, "/create_engine", engine=ENGINE, engine_name="e").status_code == 400
    assert post(url, "/call", method="nothing", engine_name="e").status_code == 400
    assert post(url, "/call", method="fail", args=["x"]).status_code == 500
    found = post(url, "/call", method="echo", args=[1], kwargs={"a": 2})
    assert wire.load(found.content) == {"status": "success", "result": [[1], {"a": 2}]}
    headers = {"Authorization": f"Bearer {KEY}"}
    for body in (b"", b"\x80\x04.", json.dumps({"method": "echo"}).encode()):
        assert httpx.post(f"{url}/call", content=body, headers=headers).status_code == 400


def test_ports_are_given_once(url: str) -> None:
    found = [wire.load(post(url, "/alloc_ports", count=3).content)["result"] for _ in range(3)]
    assert len({port for ports in found for port in ports}) == 9


def test_a_call_that_is_repeated_runs_once(url: str) -> None:
    assert post(url, "/create_engine", engine=ENGINE).status_code == 200
    found: list[Any] = []

    def call() -> None:
        answer = post(url, "/call", method="wait", call_id="one")
        found.append(wire.load(answer.content)["result"])

    threads = [threading.Thread(target=call) for _ in range(3)]
    # One that hangs up does not end the call.
    with pytest.raises(httpx.TimeoutException):
        httpx.post(
            f"{url}/call",
            content=wire.dump({"method": "wait", "call_id": "one"}),
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=0.2,
        )
    for thread in threads:
        thread.start()
    Slow.gate.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    call()
    assert found == [1] * 4
    answer = post(url, "/call", method="wait", call_id="two")
    assert wire.load(answer.content)["result"] == 2
    # A failure is repeated as well.
    failures = {
        post(url, "/call", method="fail", args=[words], call_id="three").json()["error"]
        for words in ("first", "second")
    }
    assert failures == {"ValueError: first"}
