"""Threads for synchronous episodes: as many as there are, none waited for at the end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
# As short as a loop's timer is.
_PATIENCE_S = 0.001
_Outcome = tuple[Any, BaseException | None]
_Job = tuple[Callable[[], Any], "LoopPost", "asyncio.Future[Any]"]


class LoopPost:
    """Carries calls of threads to an event loop, and letters of the loop to their threads.

    The threads wake one after the other, each by the one before it when that calls, and the last
    wakes the loop for all of them. Woken together they would wait for the interpreter's lock and
    switch twice. One that computes or sleeps holds up the others for ``_PATIENCE_S``.

    Args:
        loop: Where the calls run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._is_waking = False
        self._letters: deque[tuple[queue.SimpleQueue[Any], Any]] = deque()
        self._is_sending = False
        self._watch: asyncio.TimerHandle | None = None

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called in the loop, by a thread that then waits.

        Raises:
            RuntimeError: The loop was closed.
        """
        self._calls.append((function, args))
        has_woken = self._wake_next()
        if self.loop.is_closed():
            raise RuntimeError("the event loop was closed")
        if not has_woken and not self._is_waking:
            self._is_waking = True
            self.loop.call_soon_threadsafe(self._deliver)

    def send(self, box: queue.SimpleQueue[T], letter: T) -> None:
        """Put a letter into the box of a thread, in its turn; called in the loop."""
        self._letters.append((box, letter))
        if not self._is_sending:
            self._is_sending = True
            # When the loop has run what is ready, as the thread would wait for that.
            self.loop.call_soon(self._begin_sending)

    def _begin_sending(self) -> None:
        self._wake_next()
        if self._letters:
            self._watch = self.loop.call_later(_PATIENCE_S, self._go_on, len(self._letters))
        self._deliver()

    def _wake_next(self) -> bool:
        try:
            box, letter = self._letters.popleft()
        except IndexError:
            return False
        box.put(letter)
        return True

    def _go_on(self, num_before: int) -> None:
        """Send the letters that a thread holds up, and deliver what came without a wake-up."""
        num_left = len(self._letters)
        if num_left >= num_before:
            while self._wake_next():
                pass
        self._watch = self.loop.call_later(_PATIENCE_S, self._go_on, num_left)
        self._deliver()

    def _deliver(self) -> None:
        self._is_waking = False  # before looking, so that nothing can be missed
        if not self._letters:
            self._is_sending = False
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None
        while self._calls:
            function, args = self._calls.popleft()
            function(*args)

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
                self.send(box, (None, asyncio.CancelledError()))
            else:
                error = done.exception()
                self.send(box, (None if error else done.result(), error))

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
        post.send(inbox, (lambda: context.run(function), post, future))
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
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                post.call(_settle, future, result, error)
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
