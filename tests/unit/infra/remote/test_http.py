"""One request: its deadline, the bound of its answer, and what its errors give away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import web

from areal.api.io_struct import HttpRequest
from areal.infra.loop_thread import LoopThread
from areal.infra.remote.http import (
    HttpClient,
    RequestRefusedError,
    ServerFaultError,
    ServerLostError,
)

# What vLLM writes where an update by group is not configured.
REASON = (
    "Call to collective_rpc method failed: Worker failed with error 'Weight transfer not "
    "configured. Please set weight_transfer_config to enable weight transfer.', please check the "
    "stack trace above for the root cause"
)
SECRET = "48 1516 2342"


async def answer(request: web.Request) -> web.StreamResponse:
    """Answers as the path demands."""
    kind = request.match_info["kind"]
    if kind == "echo":
        return web.json_response(
            {"body": await request.json(), "key": request.headers.get("Authorization")}
        )
    if kind == "text":
        return web.Response(text="fine")
    if kind == "broken":
        return web.Response(text='{"a": ', content_type="application/json")
    if kind == "hang":
        await asyncio.sleep(3600)
    if kind == "cut":
        assert request.transport is not None
        request.transport.abort()
    if kind == "chunks":
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(20):
            await response.write(b"x" * 1000)
        return response
    if kind == "quotes":
        return web.json_response({"detail": [{"input": SECRET}]}, status=422)
    if kind == "reasons":
        return web.json_response({"error": {"message": REASON}}, status=400)
    return web.Response(status=int(kind))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Starts a server for the module and yields where it listens."""
    thread = LoopThread("http-test")
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.add_routes([web.route("*", "/{kind}", answer)])
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), thread.loop).result(10)
    yield f"127.0.0.1:{runner.addresses[0][1]}"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), thread.loop).result(10)
    thread.stop()


def send(
    address: str, kind: str, client: HttpClient | None = None, timeout_s: float = 10
) -> object:
    client = client or HttpClient()
    request = HttpRequest(f"/{kind}", {"input_ids": SECRET})
    return asyncio.run(client.send(address, request, timeout_s))


def test_json_goes_out_and_comes_back_with_the_key(address: str) -> None:
    found = send(address, "echo", HttpClient("k1"))
    assert found == {"body": {"input_ids": SECRET}, "key": "Bearer k1"}
    assert send(address, "echo") == {"body": {"input_ids": SECRET}, "key": None}
    assert send(f"http://{address}/", "echo") == {"body": {"input_ids": SECRET}, "key": None}


def test_an_answer_that_is_no_json_is_none(address: str) -> None:
    assert send(address, "text") is None


def test_one_client_serves_several_loops(address: str) -> None:
    client = HttpClient()
    for _ in range(3):
        assert send(address, "text", client) is None


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("500", ServerFaultError),
        ("503", ServerFaultError),
        ("302", ServerFaultError),
        ("broken", ServerFaultError),
        ("cut", ServerLostError),
        ("400", RequestRefusedError),
        ("429", RequestRefusedError),
        ("quotes", RequestRefusedError),
        ("reasons", RequestRefusedError),
    ],
)
def test_errors_name_server_and_endpoint_and_quote_nothing(
    address: str, kind: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        send(address, kind)
    text = str(caught.value)
    assert address in text
    assert f"/{kind}" in text
    assert SECRET not in text
    if kind.isdecimal():
        assert f"status {kind}" in text


def test_a_reason_is_passed_on(address: str) -> None:
    with pytest.raises(RequestRefusedError, match=rf"status 400 \({REASON}\)") as caught:
        send(address, "reasons")
    assert caught.value.status == 400


def test_a_deadline_ends_a_request(address: str) -> None:
    with pytest.raises(ServerFaultError, match=r"no answer within 0\.1 s") as caught:
        send(address, "hang", timeout_s=0.1)
    assert not isinstance(caught.value, ServerLostError)


def test_nobody_listens(address: str) -> None:
    with pytest.raises(ServerLostError, match="ClientConnectorError"):
        send("127.0.0.1:1", "text")


@pytest.mark.parametrize("kind", ["chunks", "echo"])
def test_a_long_answer_is_cut_off(address: str, kind: str) -> None:
    with pytest.raises(ServerFaultError, match="longer than 20 bytes"):
        send(address, kind, HttpClient(max_answer_bytes=20))
