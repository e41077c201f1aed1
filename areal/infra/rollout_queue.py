"""Rows on their way through episodes: waiting, running, done and handed out."""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from areal.api.reward_api import REWARD_STATS
from areal.infra.episode_gauge import EpisodeGauge, EpisodeLease
from areal.infra.episode_monitor import EpisodeMonitor
from areal.infra.loop_thread import LoopThread
from areal.infra.staleness_manager import StalenessManager

_LOOK_EVERY_S = 1.0
_SPEAK_AFTER_S = 30.0
_BLOCKED_AFTER_S = 2.0


class Mailbox:
    """Collects the finished tasks of one kind of caller, so that each gets what it asked for."""

    __slots__ = ("done", "num_accepted", "num_outstanding", "wants")

    def __init__(self) -> None:
        self.done: list[int] = []  # a heap of task ids: the oldest comes first
        self.num_accepted = 0  # of the done ones
        self.num_outstanding = 0  # submitted and not taken out, done or not
        self.wants: Callable[[], bool] | None = None  # what the waiting caller waits for


class RolloutTask:
    """One submitted row.

    Args:
        task_id: Rows are ordered by it.
        data: The row.
        workflow: Runs its episodes.
        accept_fn: Filters their trajectory.
        is_eval: Is True for a row that is not trained on.
        is_gated: Is True for a row that staleness may hold back.
        mailbox: Where it goes when it is done.
    """

    __slots__ = (
        "accept_fn",
        "data",
        "is_done",
        "is_eval",
        "is_gated",
        "lease",
        "mailbox",
        "result",
        "task_id",
        "workflow",
    )

    def __init__(
        self,
        task_id: int,
        data: dict[str, Any],
        workflow: Any,
        accept_fn: Callable[[dict[str, Any]], bool] | None,
        is_eval: bool,
        is_gated: bool,
        mailbox: Mailbox,
    ) -> None:
        self.task_id = task_id
        self.data = data
        self.workflow = workflow
        self.accept_fn = accept_fn
        self.is_eval = is_eval
        self.is_gated = is_gated
        self.mailbox = mailbox
        self.lease: EpisodeLease | None = None
        self.result: dict[str, Any] | None = None  # None also if it was rejected
        self.is_done = False

    def __lt__(self, other: RolloutTask) -> bool:
        return self.task_id < other.task_id


class RolloutQueue:
    """Starts tasks as early as it may, without polling, and wakes those who wait for results.

    Args:
        run: Runs a task's episodes and sets its ``result``; must not raise.
        staleness_manager: Holds gated tasks back.
        max_concurrent: How many tasks that are not gated run at once.
        gauge: Learns of every episode that starts and ends.
        monitor: Knows whether going on makes sense.
        logger: Gets a warning when a wait takes long.
        engine_obstacle: Returns why the engine can generate nothing now, or None.
    """

    def __init__(
        self,
        run: Callable[[RolloutTask], Any],
        staleness_manager: StalenessManager,
        max_concurrent: int,
        gauge: EpisodeGauge | None,
        monitor: EpisodeMonitor,
        logger: logging.Logger,
        engine_obstacle: Callable[[], str | None] | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.tasks: dict[int, RolloutTask] = {}  # all that have not been handed out
        self.is_paused = False
        self._is_running = False
        self._run = run
        self._staleness = staleness_manager
        self._max_concurrent = max_concurrent
        self._gauge = gauge
        self._monitor = monitor
        self._logger = logger
        self._engine_obstacle = engine_obstacle
        self._changed = threading.Condition(self.lock)
        self._thread = LoopThread("areal-episodes")
        self._waiting: deque[RolloutTask] = deque()
        self._waiting_ungated: deque[RolloutTask] = deque()
        self._num_running_ungated = 0

    # --- life ---------------------------------------------------------------------------------

    def start(self, episode_limit_s: float) -> None:
        """Start the background thread.

        Args:
            episode_limit_s: How long an episode may take.
        """
        self._staleness.add_listener(self.start_waiting)
        self._thread.start()
        self._is_running = True
        self._thread.spawn(self._watch, (episode_limit_s,))

    def stop(self) -> None:
        """Cancel what runs; whoever waits gets an error."""
        with self.lock:
            was_running, self._is_running = self._is_running, False
            self._waiting.clear()
            self._waiting_ungated.clear()
            self._changed.notify_all()
        if was_running and not self._thread.stop(timeout=10):
            self._logger.warning("an episode blocks its event loop; its thread is abandoned")

    async def _watch(self, limit_s: float) -> None:
        while True:
            await asyncio.sleep(min(max(limit_s / 10, 0.05), 5.0))
            self._monitor.cancel_overdue(limit_s)

    # --- starting -----------------------------------------------------------------------------

    @property
    def num_waiting(self) -> int:
        """How many gated tasks have not started."""
        return len(self._waiting)

    def add(self, tasks: Iterable[RolloutTask]) -> None:
        """Queue tasks; the caller holds the lock, and calls ``start_waiting`` after it.

        Raises:
            RuntimeError: The queue is not running.
        """
        self.check_running()
        for task in tasks:
            self.tasks[task.task_id] = task
            task.mailbox.num_outstanding += 1
            if task.is_gated:
                self._waiting.append(task)
                self._staleness.on_rollout_enqueued()
            else:
                self._waiting_ungated.append(task)

    def start_waiting(self) -> None:
        """Start what may start; call it whenever that may have changed."""
        with self.lock:
            self._start_waiting()

    def check_running(self) -> None:
        """Raise RuntimeError before ``start`` and after ``stop``."""
        if not self._is_running:
            raise RuntimeError("the executor is not running; call initialize() first")

    def _start_waiting(self) -> None:
        if self.is_paused or not self._is_running:
            return
        started: list[RolloutTask] = []
        if self._waiting:
            count = min(self._staleness.get_capacity(), len(self._waiting))
            started = [self._waiting.popleft() for _ in range(count)]
            self._staleness.on_rollout_submitted(len(started))
        while self._waiting_ungated and self._num_running_ungated < self._max_concurrent:
            self._num_running_ungated += 1
            started.append(self._waiting_ungated.popleft())
        if self._gauge is not None:
            for task in started:
                task.lease = self._gauge.lease(getattr(task.workflow, "group_size", 1))
        # At once, so that an engine sees their requests together and equal prompts share a prefill.
        self._thread.spawn(self._run_task, *((task,) for task in started))

    # --- ending -------------------------------------------------------------------------------

    async def _run_task(self, task: RolloutTask) -> None:
        try:
            await self._run(task)
        finally:
            self._finish(task)

    def _finish(self, task: RolloutTask) -> None:
        box = task.mailbox
        is_accepted = task.result is not None
        with self.lock:
            if not self._is_running:
                return  # it was cancelled, which is no result
            task.is_done = True
            heapq.heappush(box.done, task.task_id)
            box.num_accepted += is_accepted
            if not task.is_gated:
                self._num_running_ungated -= 1
            elif is_accepted:
                self._staleness.on_rollout_accepted()
            else:
                self._staleness.on_rollout_rejected()
            self._start_waiting()
            if box.wants is not None and (box.wants() or self._monitor.is_hopeless):
                self._changed.notify_all()
        # Only now, so that what starts in its place is counted before it is not.
        if task.lease is not None:
            task.lease.close()

    # --- waiting ------------------------------------------------------------------------------

    def wait_until(
        self,
        is_satisfied: Callable[[], bool],
        box: Mailbox,
        count: int,
        timeout: float | None = None,
        raise_timeout: bool = True,
    ) -> bool:
        """Wait in the caller's thread for its mailbox.

        Args:
            is_satisfied: Is asked, under the lock, whenever a task of the mailbox ends.
            box: The mailbox.
            count: How many tasks are waited for, for messages.
            timeout: In seconds; None waits for ever.
            raise_timeout: False returns False after the timeout.

        Raises:
            TimeoutError: The message names what was waited for.
            EpisodeFailureError: Most episodes, or most reward calls, fail.
            RuntimeError: The queue was stopped.
        """
        start = time.monotonic()
        speak_after_s = _SPEAK_AFTER_S
        box.wants = is_satisfied
        try:
            while not self._wait_a_while(is_satisfied, start, timeout):
                waited_s = time.monotonic() - start
                if timeout is not None and waited_s >= timeout:
                    if raise_timeout:
                        raise TimeoutError(self._describe_wait(waited_s, box, count))
                    return False
                if waited_s > speak_after_s:
                    speak_after_s *= 3
                    self._logger.warning("%s", self._describe_wait(waited_s, box, count))
        finally:
            box.wants = None
        self._check_hope()
        return True

    def take(self, box: Mailbox, count: int) -> list[RolloutTask]:
        """Take the oldest ``count`` finished tasks out of a mailbox; the caller holds the lock."""
        return [self._forget(heapq.heappop(box.done)) for _ in range(count)]

    def take_task(self, task: RolloutTask) -> None:
        """Take a finished task out of its mailbox; the caller holds the lock."""
        task.mailbox.done.remove(task.task_id)
        heapq.heapify(task.mailbox.done)
        self._forget(task.task_id)

    def _forget(self, task_id: int) -> RolloutTask:
        task = self.tasks.pop(task_id)
        task.mailbox.num_outstanding -= 1
        task.mailbox.num_accepted -= task.result is not None
        return task

    def _wait_a_while(
        self, is_satisfied: Callable[[], bool], start: float, timeout: float | None
    ) -> bool:
        with self.lock:
            if is_satisfied():
                return True
            self.check_running()
            self._check_hope()
            left_s = _LOOK_EVERY_S
            if timeout is not None:
                left_s = min(left_s, start + timeout - time.monotonic())
            if left_s > 0:
                self._changed.wait(left_s)
            # An engine that does not announce its versions is asked now and then.
            self._start_waiting()
            return is_satisfied()

    def _check_hope(self) -> None:
        self._monitor.raise_if_hopeless()
        REWARD_STATS.window.raise_if_tripped()

    def _describe_wait(self, waited_s: float, box: Mailbox, count: int) -> str:
        """Return who waits for what."""
        text = (
            f"waited {waited_s:.1f} s for {count} rows, {len(box.done)} are done; "
            f"running episodes: {self._monitor.describe_running()}"
        )
        num_waiting = len(self._waiting) + len(self._waiting_ungated)
        if num_waiting:
            text += f"; {num_waiting} rows wait to start, held back by {self._obstacle()}"
        elif box.num_outstanding < count:
            text += f"; only {box.num_outstanding} were submitted"
        obstacle = self._engine_obstacle() if self._engine_obstacle is not None else None
        if obstacle is not None:
            text += f"; {obstacle}"
        blocked_at = self._thread.blocked_at(_BLOCKED_AFTER_S)
        if blocked_at is not None:
            text += f"; the event loop of all episodes is blocked at\n{blocked_at}"
        return text

    def _obstacle(self) -> str:
        manager = self._staleness
        if self.is_paused:
            return "pause()"
        if self._waiting and manager.get_staleness_capacity() <= 0:
            return (
                f"staleness (version {manager.version_provider.get_version()}, "
                f"max_head_offpolicyness {manager.max_staleness}, consumer_batch_size "
                f"{manager.consumer_batch_size}, {manager.get_stats().accepted} accepted so far)"
            )
        return f"max_concurrent_rollouts ({self._max_concurrent})"
