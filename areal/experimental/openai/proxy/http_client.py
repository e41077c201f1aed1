"""The HTTP client that agents share."""

from __future__ import annotations

import asyncio
import importlib
import weakref
from typing import Any

import openai

from areal.infra.workflow_context import register_loop_cleanup

# Whichever HTTP library the installed SDK is built on.
_AsyncClient: type[Any] = openai.DefaultAsyncHttpxClient


class SharedHttpClient(_AsyncClient):
    """Stays open when an agent closes the SDK's client around it, for the sake of the others."""

    async def aclose(self) -> None:
        """Does nothing; the client ends with its event loop."""

    async def close_for_good(self) -> None:
        """Closes all connections."""
        await super().aclose()


_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, SharedHttpClient]
_clients = weakref.WeakKeyDictionary()


async def get_agent_http_client() -> SharedHttpClient:
    """Returns this event loop's client; it has no limits and asks no web proxy.

    Thousands of episodes wait for slow generations at once, and the executor watches their time.
    """
    loop = asyncio.get_running_loop()
    client = _clients.get(loop)
    if client is None:
        client = SharedHttpClient(timeout=None, limits=_no_limits(), trust_env=False)
        _clients[loop] = client
        await register_loop_cleanup(client.close_for_good)
    return client


def _no_limits() -> Any:
    # Of the same library as the client.
    module = _AsyncClient.__mro__[1].__module__.partition(".")[0]
    return importlib.import_module(module).Limits(
        max_connections=None, max_keepalive_connections=None
    )
