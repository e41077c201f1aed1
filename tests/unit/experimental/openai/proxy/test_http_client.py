"""The client that inline agents share, against servers that behave and some that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import openai
import pytest
from aiohttp import web

from areal.experimental.openai.proxy.http_client import SharedHttpClient, get_agent_http_client

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Use = Callable[[SharedHttpClient, str], Awaitable[Any]]


def run(handler: Handler, use: Use) -> Any:
    """Serves one handler for every request and returns what its user makes of it."""

    async def both() -> Any:
        runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            port = runner.addresses[0][1]
            return await use(await get_agent_http_client(), f"http://127.0.0.1:{port}")
        finally:
            await runner.cleanup()

    return asyncio.run(both())


async def echo(request: web.Request) -> web.Response:
    about = [request.method, request.raw_path, request.headers.get("X-Given")]
    return web.json_response([*about, (await request.read()).decode()])


@pytest.mark.parametrize(
    ("method", "options", "body"),
    [
        ("GET", {}, ""),
        ("POST", {"json": {"a": "\u00e9"}}, '{"a":"\u00e9"}'),
        ("PUT", {"content": b"x" * 300_000}, "x" * 300_000),
    ],
)
def test_what_is_asked_arrives(method: str, options: dict[str, Any], body: str) -> None:
    async def use(client: SharedHttpClient, url: str) -> list[Any]:
        headers = {"X-Given": "yes"}
        answer = await client.request(method, f"{url}/a%2Fb?c=%2B", headers=headers, **options)
        return answer.json()

    assert run(echo, use) == [method, "/a%2Fb?c=%2B", "yes", body]


def test_a_body_in_parts_is_sent_whole() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async def use(client: SharedHttpClient, url: str) -> Any:
        return (await client.post(url, content=parts())).json()[-1]

    assert run(echo, use) == "one two"


def test_compressed_and_redirected_answers_are_the_librarys_business() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/moved":
            raise web.HTTPFound("/")
        response = web.Response(text="words " * 100)
        response.enable_compression()
        return response

    async def use(client: SharedHttpClient, url: str) -> Any:
        moved = await client.get(f"{url}/moved", follow_redirects=False)
        return moved.status_code, (await client.get(url)).text

    assert run(answer, use) == (302, "words " * 100)


def test_a_stream_is_read_as_it_comes() -> None:
    async def use(client: SharedHttpClient, url: str) -> list[str]:
        is_read = asyncio.Event()

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first")
            await is_read.wait()
            await response.write(b"second")
            return response

        server["answer"] = answer
        async with client.stream("GET", url) as response:
            found = []
            async for text in response.aiter_text():
                found.append(text)
                is_read.set()
            return found

    server: dict[str, Handler] = {}

    async def handler(request: web.Request) -> web.StreamResponse:
        return await server["answer"](request)

    assert run(handler, use) == ["first", "second"]


def test_the_sdk_recognises_what_goes_wrong() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/cut/chat/completions":
            assert request.transport is not None
            request.transport.abort()
        await asyncio.sleep(30)
        return web.Response()

    async def use(client: SharedHttpClient, url: str) -> list[str]:
        found = []
        for base_url, timeout in ((url, 0.05), (f"{url}/cut", None), ("http://127.0.0.1:1", None)):
            sdk = openai.AsyncOpenAI(
                base_url=base_url,
                api_key="key",
                http_client=client,
                max_retries=0,
                timeout=timeout,
            )
            try:
                await sdk.chat.completions.create(model="m", messages=[])
            except openai.APIConnectionError as error:
                found.append(type(error).__name__)
        return found

    expected = ["APITimeoutError", "APIConnectionError", "APIConnectionError"]
    assert run(answer, use) == expected
