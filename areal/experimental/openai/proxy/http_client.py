"""The HTTP client that agents share."""

from __future__ import annotations

import asyncio
import importlib
import weakref
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openai
from yarl import URL

from areal.infra.workflow_context import register_loop_cleanup

# Whichever HTTP library the installed SDK is built on.
_AsyncClient: type[Any] = openai.DefaultAsyncHttpxClient
_library: Any = importlib.import_module(_AsyncClient.__mro__[1].__module__.partition(".")[0])
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class SharedHttpClient(_AsyncClient):
    """Stays open when an agent closes the SDK's client around it, for the sake of the others."""

    async def aclose(self) -> None:
        """Do nothing; the client ends with its event loop."""

    async def close_for_good(self) -> None:
        """Close all connections."""
        await super().aclose()


class LoopbackTransport(_library.AsyncBaseTransport):
    """Reaches this machine through aiohttp, and others as the library does by itself.

    The library's own pool looks at every connection for every request: with hundreds of agents at
    once it takes longer than all the rest of a request.
    """

    def __init__(self) -> None:
        limits = _library.Limits(max_connections=None, max_keepalive_connections=None)
        self._others = _library.AsyncHTTPTransport(limits=limits, trust_env=False)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),  # agents share no cookies
            auto_decompress=False,  # the library does that
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request and return the library's response, whose body is still to be read."""
        if request.url.scheme != "http" or request.url.host not in _LOOPBACK:
            return await self._others.handle_async_request(request)
        limits = request.extensions.get("timeout", {})
        try:
            answer = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                # The body is sent whole, whichever way it came.
                headers=[x for x in request.headers.multi_items() if x[0] != "transfer-encoding"],
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=limits.get("connect"), sock_read=limits.get("read")
                ),
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _translated(error, request) from error
        return _library.Response(
            answer.status,
            headers=list(answer.headers.items()),
            stream=_Body(answer, request),
            request=request,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()
        await self._others.aclose()


class _Body(_library.AsyncByteStream):
    """The body of an answer as the library reads it."""

    def __init__(self, answer: aiohttp.ClientResponse, request: Any) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._answer.content.iter_any():
                yield part
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _translated(error, self._request) from error

    async def aclose(self) -> None:
        # Where all was read the connection is free already; else it is of no more use.
        self._answer.close()


def _translated(error: BaseException, request: Any) -> Exception:
    """Return the library's error, by which the SDK knows whether to ask again."""
    kind = _library.ReadError
    if isinstance(error, aiohttp.ClientConnectorError):
        kind = _library.ConnectError
    elif isinstance(error, TimeoutError):
        kind = _library.ReadTimeout
    translated: Exception = kind(f"{type(error).__name__}: {error}", request=request)
    return translated


_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, SharedHttpClient]
_clients = weakref.WeakKeyDictionary()


async def get_agent_http_client() -> SharedHttpClient:
    """Return this event loop's client; it has no limits and asks no web proxy.

    Thousands of episodes wait for slow generations at once, and the executor watches their time.
    """
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        client = SharedHttpClient(timeout=None, transport=LoopbackTransport(), trust_env=False)
        _clients[loop] = client
        await register_loop_cleanup(client.close_for_good)
    return client
