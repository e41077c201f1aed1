"""Processes that compute rewards: a pool in which one call cannot harm another.

A worker has one call at a time, so a call that hangs, crashes or fills the memory takes its own
worker along and nothing else. One thread owns all workers; callers meet it through a deque and a
wake-up byte, results go back in batches to the event loops that wait for them.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import pickle
import threading
import weakref
from typing import Any

from areal.api.errors import RewardError
from areal.api.reward_pool import worker as wire
from areal.api.reward_pool.dispatcher import SHUT_DOWN, Call, Dispatcher
from areal.api.reward_pool.function import RewardFunction


class RewardPool:
    """Runs reward functions in processes; any thread with an event loop may submit.

    Args:
        size: How many calls run at once, slow ones not counted.
        max_memory_bytes: What one worker may allocate; 0 is no limit.
    """

    def __init__(self, size: int, max_memory_bytes: int = 0) -> None:
        self.size = size
        self.max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None
        self._is_shut_down = False
        _POOLS.add(self)

    def submit(
        self, function: RewardFunction, args: Any, kwargs: Any, timeout_s: float
    ) -> asyncio.Future[float]:
        """Queue one call and return a future of the running loop.

        The future gets the reward or the function's own exception; RewardTimeoutError after
        ``timeout_s`` of running (time in the queue is not counted); RewardWorkerDiedError if the
        process ended; RewardError for a value that is no finite number; ConfigError if a worker
        cannot import the function.

        Raises:
            RewardError: The arguments cannot be pickled.
            RuntimeError: The pool has been shut down.
        """
        try:
            payload = pickle.dumps((args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise RewardError(
                f"an argument of reward function {function.name} cannot be sent to a worker "
                f"process: {error}"
            ) from error
        call = Call(asyncio.get_running_loop(), function, payload, timeout_s)
        dispatcher = self._dispatcher
        if dispatcher is None or dispatcher.has_ended:
            dispatcher = self._start()
        dispatcher.put(call)
        return call.future

    def shutdown(self) -> None:
        """Kill all workers, wait for none, and fails what was under way."""
        with self._lock:
            self._is_shut_down = True
            dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            dispatcher.stop()

    def forget_parent(self) -> None:
        """Make this a fresh pool in a forked child, whose workers are its parent's."""
        self._lock = threading.Lock()
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            dispatcher.forget()

    def _start(self) -> Dispatcher:
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(SHUT_DOWN)
            if wire.is_worker_process:
                # Without this, a program whose reward is in it would start itself for ever.
                raise RuntimeError(
                    "a reward worker must not start reward workers; if the program itself was "
                    "imported to get at its reward, put what it runs behind "
                    "if __name__ == '__main__':"
                )
            if self._dispatcher is None or self._dispatcher.has_ended:
                self._dispatcher = Dispatcher(self.size, self.max_memory_bytes)
                self._dispatcher.thread.start()
            return self._dispatcher


_POOLS: weakref.WeakSet[RewardPool] = weakref.WeakSet()


def _shut_down_all() -> None:
    for pool in list(_POOLS):
        pool.shutdown()


def _forget_all() -> None:
    for pool in list(_POOLS):
        pool.forget_parent()


atexit.register(_shut_down_all)
os.register_at_fork(after_in_child=_forget_all)
