"""Runs coroutine functions in a background thread and collects their results."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from areal.infra.loop_thread import LoopThread

T = TypeVar("T")


class TaskQueueFullError(RuntimeError):
    """As many tasks wait to start as are allowed to."""


@dataclass(frozen=True, slots=True)
class TimedResult(Generic[T]):
    """The result of one task; ``create_time`` is when it was submitted, in ns (monotonic)."""

    task_id: int
    create_time: int
    data: T


class AsyncTaskRunner(Generic[T]):
    """Starts tasks as they come and hands out results oldest first.

    Args:
        max_queue_size: How many tasks may wait to start while the runner is paused; None is any
            number.
    """

    def __init__(self, max_queue_size: int | None = None) -> None:
        self.max_queue_size = max_queue_size
        self.logger = logging.getLogger("AsyncTaskRunner")
        self._thread = LoopThread("areal-tasks")
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, int, Callable[..., Awaitable[T]], Any, Any]] = deque()
        self._active: set[int] = set()
        self._done: list[tuple[int, int, T]] = []
        self._error: BaseException | None = None
        self._wanted = 0
        self._next_id = 0
        self._is_paused = False
        self._is_running = False

    def initialize(self, logger: logging.Logger | None = None) -> None:
        """Start the background thread."""
        self.logger = logger or self.logger
        self._thread.start()
        self._is_running = True

    def destroy(self, timeout: float = 30.0) -> None:
        """Cancel all tasks and end the thread.

        Args:
            timeout: How many seconds to wait for it.
        """
        with self._changed:
            self._is_running = False
            self._waiting.clear()
            self._changed.notify_all()
        if not self._thread.stop(timeout):
            self.logger.warning("a task blocks its event loop; its thread is abandoned")

    def submit(
        self,
        async_fn: Callable[..., Awaitable[T]],
        *args: Any,
        task_id: int | None = None,
        **kwargs: Any,
    ) -> int:
        """Queue ``async_fn(*args, **kwargs)``.

        Args:
            async_fn: A coroutine function; an exception of its is raised by the next ``wait``.
            *args: For it.
            task_id: Unique among the tasks that have not been waited for; None picks one.
            **kwargs: For it.

        Returns:
            The task's id.

        Raises:
            TaskQueueFullError: ``max_queue_size`` tasks wait already.
            ValueError: The id is in use.
            RuntimeError: The runner is not running.
        """
        with self._changed:
            if not self._is_running:
                raise RuntimeError("the task runner is not running; call initialize() first")
            if self.max_queue_size is not None and len(self._waiting) >= self.max_queue_size:
                raise TaskQueueFullError(
                    f"{len(self._waiting)} tasks wait already, which is max_queue_size"
                )
            if task_id is None:
                while self._next_id in self._active:
                    self._next_id += 1
                task_id = self._next_id
                self._next_id += 1
            elif task_id in self._active:
                raise ValueError(f"task id {task_id} is in use")
            self._active.add(task_id)
            self._waiting.append((task_id, time.monotonic_ns(), async_fn, args, kwargs))
            if not self._is_paused:
                self._start_waiting()
        return task_id

    def wait(
        self, count: int, timeout: float | None = None, with_timing: bool = False
    ) -> list[T] | list[TimedResult[T]]:
        """Wait for results and take them out, oldest task first.

        Args:
            count: How many.
            timeout: In seconds; None waits for ever.
            with_timing: Wrap each result with its task's id and time of submission.

        Raises:
            TimeoutError: Fewer came in time; they stay for the next call.
            RuntimeError: The runner was destroyed.
            BaseException: What a task raised.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._wanted = count
            while self._error is None and len(self._done) < count:
                if not self._is_running:
                    raise RuntimeError("the task runner was destroyed")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(
                        f"waited {timeout:g} s for {count} tasks, {len(self._done)} are done; "
                        f"{len(self._active) - len(self._waiting) - len(self._done)} run, "
                        f"{len(self._waiting)} wait to start"
                        + (" (paused)" if self._is_paused else "")
                    )
                self._changed.wait(left)
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            results = [heapq.heappop(self._done) for _ in range(count)]
            self._active.difference_update(task_id for _, task_id, _ in results)
        if with_timing:
            return [TimedResult(task_id, created, data) for created, task_id, data in results]
        return [data for _, _, data in results]

    def pause(self) -> None:
        """Start no more tasks; running ones go on."""
        self._is_paused = True

    def resume(self) -> None:
        """Start what has come together since ``pause``."""
        with self._changed:
            self._is_paused = False
            self._start_waiting()

    def get_input_queue_size(self) -> int:
        """Return how many tasks wait to start."""
        return len(self._waiting)

    def get_output_queue_size(self) -> int:
        """Return how many results wait to be taken."""
        return len(self._done)

    def _start_waiting(self) -> None:
        waiting = list(self._waiting)
        self._waiting.clear()
        self._thread.spawn(self._run_task, *waiting)

    async def _run_task(
        self,
        task_id: int,
        created: int,
        async_fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        try:
            data = await async_fn(*args, **kwargs)
        except Exception as error:
            with self._changed:
                self._active.discard(task_id)
                self._error = self._error or error
                self._changed.notify_all()
            return
        with self._changed:
            # (created, id) is unique, so results themselves are never compared.
            heapq.heappush(self._done, (created, task_id, data))
            if len(self._done) >= self._wanted:
                self._changed.notify_all()
