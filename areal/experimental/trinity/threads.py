"""Threads for synchronous episodes: as many as there are, none waited for at the end."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class EpisodeThreads:
    """Runs functions in daemon threads, a free one if there is one, else a new one.

    A pool of fixed size would fill up with episodes that hang; here each costs its own thread.
    """

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[_Job]] = []

    async def run(self, function: Callable[[], T]) -> T:
        """Return what the function returns; the running task's context is its context too."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        inbox = self._idle.pop() if self._idle else self._start()
        context = contextvars.copy_context()
        inbox.put((lambda: context.run(function), loop, future))
        return await future

    def _start(self) -> queue.SimpleQueue[_Job]:
        inbox: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(
            target=self._work, args=(inbox,), name="trinity-episode", daemon=True
        ).start()
        return inbox

    def _work(self, inbox: queue.SimpleQueue[_Job]) -> None:
        while True:
            function, loop, future = inbox.get()
            result: Any = None
            error: BaseException | None = None
            try:
                result = function()
            except BaseException as raised:  # of a workflow, which may raise what it likes
                error = raised
            # Before the answer: whoever gets it may start the next one at once.
            self._idle.append(inbox)
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                return  # the loop was closed: nobody waits
            del function, result, error, future


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        # A future takes no StopIteration, and an exit of one episode is no exit of the run.
        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        future.set_exception(error)
