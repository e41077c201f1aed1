"""What an episode may know about itself, and the HTTP clients that episodes share.

>>> from areal import workflow_context
>>> workflow_context.stat_scope()
'rollout'
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp
    import httpx


@dataclass(frozen=True, slots=True)
class WorkflowContext:
    """Identifies an episode.

    ``task_id`` is that of the submitted row, ``sample_idx`` the episode's place in its group; both
    are None outside of an executor, ``sample_idx`` also without a group.
    """

    is_eval: bool = False
    task_id: int | None = None
    sample_idx: int | None = None


_DEFAULT = WorkflowContext()
_context: ContextVar[WorkflowContext] = ContextVar("areal_workflow_context", default=_DEFAULT)


def set(context: WorkflowContext) -> None:
    """Set the context of the running task and of the tasks that it starts."""
    _context.set(context)


def get() -> WorkflowContext:
    """Return the context of the running task."""
    return _context.get()


def stat_scope() -> str:
    """Return the name of the tracker that episodes record to: "rollout" or "eval-rollout"."""
    return "eval-rollout" if _context.get().is_eval else "rollout"


# --- shared clients ---------------------------------------------------------------------------


class _LoopClients(threading.local):
    """The clients of this thread's event loop; a client works in no other loop."""

    loop: asyncio.AbstractEventLoop | None = None
    clients: dict[str, Any]

    def get(self, name: str) -> Any:
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.loop = loop
            self.clients = {}
        return self.clients.get(name)


_clients = _LoopClients()
# The loop keeps only weak references to its asynchronous generators.
_cleanups: dict[asyncio.AbstractEventLoop, list[AsyncIterator[None]]] = {}


async def get_aiohttp_session() -> aiohttp.ClientSession:
    """Return this event loop's aiohttp session, which is closed with the loop.

    It has no limit on connections and no total time limit: thousands of episodes wait for slow
    generations at once, and the executor watches over their time.
    """
    session = _clients.get("aiohttp")
    if session is None or session.closed:
        import aiohttp

        session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
            connector=aiohttp.TCPConnector(limit=0, use_dns_cache=True),
        )
        _clients.clients["aiohttp"] = session
        await register_loop_cleanup(session.close)
    return session


async def get_httpx_client() -> httpx.AsyncClient:
    """Return this event loop's httpx client, closed with the loop and as unlimited."""
    client = _clients.get("httpx")
    if client is None or client.is_closed:
        import httpx

        client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=30),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        _clients.clients["httpx"] = client
        await register_loop_cleanup(client.aclose)
    return client


async def register_loop_cleanup(cleanup: Callable[[], Awaitable[Any]]) -> None:
    """Have a coroutine function called when the running event loop is about to close.

    Works in any loop that shuts down its asynchronous generators first, as ``asyncio.run`` and the
    executor do.
    """
    loop = asyncio.get_running_loop()

    async def sleeper() -> AsyncIterator[None]:
        try:
            yield
        finally:
            _cleanups.pop(loop, None)
            await cleanup()

    generator = sleeper()
    await anext(generator)  # now it waits for its end, which the loop brings about
    _cleanups.setdefault(loop, []).append(generator)
