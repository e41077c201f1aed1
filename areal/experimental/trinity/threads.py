"""Threads for synchronous episodes: as many as there are, none waited for at the end."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_Outcome = tuple[Any, BaseException | None]
_Job = tuple[Callable[[], Any], "LoopPost", "asyncio.Future[Any]"]


class LoopPost:
    """Brings calls of other threads to an event loop; one wake-up serves any number of them.

    Args:
        loop: Where the calls run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._is_waking = False

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called in the loop.

        Raises:
            RuntimeError: The loop was closed.
        """
        self._calls.append((function, args))
        if not self._is_waking:
            self._is_waking = True
            self.loop.call_soon_threadsafe(self._deliver)

    def wait_for(self, work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[Any]]) -> T:
        """Run a coroutine in the loop and wait in this thread for what it returns.

        Args:
            work: Runs in the context of this thread.
            tasks: Holds its task while it runs, so that somebody else may cancel it.

        Raises:
            asyncio.CancelledError: It was cancelled.
        """
        box: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self.call(self._start, work, tasks, contextvars.copy_context(), box)
        result, error = box.get()
        if error is not None:
            raise error
        found: T = result
        return found

    async def relay(self, work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[Any]]) -> T:
        """Run a coroutine in the loop and await it in another one; see ``wait_for``."""

        async def tracked() -> T:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                return await work
            finally:
                tasks.discard(task)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(tracked(), self.loop))

    def _deliver(self) -> None:
        self._is_waking = False  # before looking, so that nothing can be missed
        while self._calls:
            function, args = self._calls.popleft()
            function(*args)

    def _start(
        self,
        work: Coroutine[Any, Any, Any],
        tasks: set[asyncio.Task[Any]],
        context: contextvars.Context,
        box: queue.SimpleQueue[_Outcome],
    ) -> None:
        task = self.loop.create_task(work, context=context)
        tasks.add(task)

        def tell(done: asyncio.Task[Any]) -> None:
            tasks.discard(done)
            if done.cancelled():
                box.put((None, asyncio.CancelledError()))
            else:
                error = done.exception()
                box.put((None if error else done.result(), error))

        task.add_done_callback(tell)


class EpisodeThreads:
    """Runs functions in daemon threads, a free one if there is one, else a new one.

    A pool of fixed size would fill up with episodes that hang; here each costs its own thread.
    """

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[_Job]] = []

    async def run(self, function: Callable[[], T], post: LoopPost) -> T:
        """Return what the function returns; the running task's context is its context too.

        Args:
            function: Runs in a thread.
            post: Of the running loop.
        """
        future: asyncio.Future[T] = post.loop.create_future()
        inbox = self._idle.pop() if self._idle else self._start()
        context = contextvars.copy_context()
        inbox.put((lambda: context.run(function), post, future))
        return await future

    def _start(self) -> queue.SimpleQueue[_Job]:
        inbox: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(
            target=self._work, args=(inbox,), name="trinity-episode", daemon=True
        ).start()
        return inbox

    def _work(self, inbox: queue.SimpleQueue[_Job]) -> None:
        while True:
            function, post, future = inbox.get()
            result: Any = None
            error: BaseException | None = None
            try:
                result = function()
            except BaseException as raised:  # of a workflow, which may raise what it likes
                error = raised
            # Before the answer: whoever gets it may start the next one at once.
            self._idle.append(inbox)
            try:
                post.call(_settle, future, result, error)
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
