"""An event loop in a thread of its own, to which other threads hand coroutines without polling."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

AsyncFunction = Callable[..., Awaitable[Any]]
T = TypeVar("T")

_CANCEL_AGAIN_AFTER_S = 0.1


class LoopThread:
    """Runs coroutines in the background.

    Coroutines handed over together start in the same iteration of the loop, and one wake-up serves
    any number of them.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._inbox: deque[tuple[AsyncFunction, Sequence[Any]]] = deque()
        self._is_draining = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop.

        Raises:
            RuntimeError: The thread has not been started, or was stopped.
        """
        if self._loop is None:
            raise RuntimeError(f"the thread {self._name} is not running; call initialize() first")
        return self._loop

    def start(self) -> None:
        """Start the thread and return once its loop runs."""
        self._ready.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def start_with(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Start the thread and return what a coroutine does in it; if that raises, end it again."""
        self.start()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
        except BaseException:
            self.stop()
            raise

    def is_current(self) -> bool:
        """Return True in the thread of the loop."""
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def spawn(
        self, function: Callable[..., Awaitable[Any]], *argument_lists: Sequence[Any]
    ) -> None:
        """Have ``function(*arguments)`` run as a task for every list of arguments.

        All of them start in the same iteration of the loop.

        Args:
            function: A coroutine function that handles its own exceptions.
            *argument_lists: For one task each.
        """
        if not argument_lists:
            return
        if self.is_current():
            for arguments in argument_lists:
                self._start(function, arguments)
            return
        # In one go, or the loop could run the first before the second is there.
        self._inbox.extend([(function, arguments) for arguments in argument_lists])
        if not self._is_draining:
            self._is_draining = True
            self.loop.call_soon_threadsafe(self._drain)

    def stop(self, timeout: float = 30.0) -> bool:
        """Cancel what runs, close the loop and end the thread.

        Args:
            timeout: How many seconds to wait for it.

        Returns:
            False if the thread did not end in time because something blocks its loop.
        """
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return True
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        if not self.is_current():
            thread.join(timeout)
        self._thread = self._loop = None
        return not thread.is_alive()

    def blocked_at(self, patience_s: float) -> str | None:
        """Return where the loop is stuck, if it does not answer.

        Args:
            patience_s: How long it may take to answer.

        Returns:
            The innermost lines of its stack, or None if the loop runs.
        """
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        if answered.wait(patience_s) or self._thread is None or self._thread.ident is None:
            return None
        frame = sys._current_frames().get(self._thread.ident)
        if frame is None:
            return None
        return "".join(traceback.format_stack(frame)[-3:]).rstrip()

    def _drain(self) -> None:
        self._is_draining = False  # before looking, so that nothing can be missed
        while self._inbox:
            self._start(*self._inbox.popleft())

    def _start(self, function: AsyncFunction, args: Sequence[Any]) -> None:
        # An empty context: scopes and settings of whoever spawns must not leak into the work.
        context = contextvars.Context()
        coroutine = self._guard(function, args)
        self._tasks.add(asyncio.get_running_loop().create_task(coroutine, context=context))

    async def _guard(self, function: AsyncFunction, args: Sequence[Any]) -> None:
        try:
            await function(*args)
        finally:
            # A done callback would do the same at four times the price.
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._loop = loop
        self._ready.set()
        try:
            loop.run_forever()
        finally:
            self._inbox.clear()
            try:
                loop.run_until_complete(self._cancel_all())
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.run_until_complete(loop.shutdown_default_executor())
            finally:
                asyncio.set_event_loop(None)
                loop.close()

    async def _cancel_all(self) -> None:
        """Cancel until all have ended; a task may swallow a cancellation."""
        give_up_at = time.monotonic() + 5.0
        while self._tasks and time.monotonic() < give_up_at:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=_CANCEL_AGAIN_AFTER_S)
