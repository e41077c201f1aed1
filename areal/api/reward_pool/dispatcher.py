"""The thread that hands reward calls to worker processes and watches over them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import selectors
import socket
import threading
import time
from collections import deque

from areal.api.errors import (
    ConfigError,
    RewardError,
    RewardTimeoutError,
    RewardWorkerDiedError,
)
from areal.api.reward_pool import worker as wire
from areal.api.reward_pool.function import RewardFunction, load_error, unpack_error
from areal.api.reward_pool.launcher import Nursery, describe_exit, kill_group, split_messages

logger = logging.getLogger("RewardPool")

SHUT_DOWN = "ProcessPoolExecutor has been shut down"
# A worker busy for longer no longer counts toward the pool's size, and a spare takes its place.
SLOW_AFTER_S = 0.2
# Importing a reward's module is not held against its time limit, but has a limit of its own.
IMPORT_LIMIT_S = 60.0
_CHECK_EVERY_S = 0.05
_PREFETCH_BELOW_S = 0.02
_MEAN_DECAY = 0.9
_SPARE_KEPT_S = 5.0
# So long after the last call the thread still looks after the workers, though none has a call.
_WATCH_ON_S = 1.0
_EXIT_STATUS_WITHIN_S = 2.0
_MAX_FAILED_STARTS = 5


class AttemptTimeoutError(RewardTimeoutError):
    """This package stopped an attempt; a function may also raise RewardTimeoutError itself."""


class Call:
    """One attempt at one reward."""

    __slots__ = ("function", "future", "loop", "payload", "timeout_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        function: RewardFunction,
        payload: bytes,
        timeout_s: float,
    ) -> None:
        self.loop = loop
        self.future: asyncio.Future[float] = loop.create_future()
        self.function = function
        self.payload = payload
        self.timeout_s = timeout_s

    def is_abandoned(self) -> bool:
        """Return True once nobody needs the result any more."""
        return self.future.done() or self.loop.is_closed()


class Worker:
    """A worker process, seen from the dispatcher."""

    __slots__ = (
        "call",
        "ended_at",
        "functions",
        "idle_since",
        "is_slow",
        "loading_since",
        "next_call",
        "next_is_shared",
        "pid",
        "rx",
        "sock",
        "started_at",
        "tx",
    )

    def __init__(self, sock: socket.socket, now: float) -> None:
        self.sock = sock
        self.pid: int | None = None  # until it has said hello
        self.rx = bytearray()
        self.tx = memoryview(b"")
        self.functions: set[RewardFunction] = set()
        self.call: Call | None = None
        self.next_call: Call | None = None  # already in its socket
        self.next_is_shared = False  # and in the queue again
        self.started_at = now  # of the call, or before the first of the process
        self.loading_since: float | None = None
        self.is_slow = False
        self.idle_since = now
        self.ended_at: float | None = None


class Dispatcher:
    """Owns the workers. Everything but ``put`` and ``stop`` runs in its thread.

    While that watches, ``put`` gives a call to an idle worker by itself: a rollout that asks for
    one reward at a time would wait for the thread to wake, as long as the rest of the way takes.
    """

    def __init__(self, size: int, max_memory_bytes: int) -> None:
        self.size = size
        self.max_workers = size + max(8, 2 * size)
        self.max_memory_bytes = max_memory_bytes
        self.thread = threading.Thread(target=self._run, name="reward-pool", daemon=True)
        self._inbox: deque[Call] = deque()
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._wake_w.setblocking(False)
        self._is_awake = False
        self._is_stopping = False
        self._lock = threading.Lock()  # of everything below
        self._watches_until = 0.0
        self._is_watching = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_r, selectors.EVENT_READ, self._on_wake)
        self._queue: deque[Call] = deque()
        self._mean_s: dict[RewardFunction, float] = {}
        self._workers: set[Worker] = set()
        self._idle: list[Worker] = []
        self._num_busy = 0  # with a call, not slow
        self._num_starting = 0
        self._num_failed_starts = 0
        self._nursery: Nursery | None = None
        self._may_preload = True
        self._function_ids: dict[RewardFunction, int] = {}
        self._done: dict[asyncio.AbstractEventLoop, list[tuple[Call, float | Exception]]] = {}
        self._next_check = 0.0

    # --- called from other threads ------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """True once it takes no more calls."""
        return self._is_stopping

    def put(self, call: Call) -> None:
        """Queue a call.

        Raises:
            RuntimeError: The thread has ended.
        """
        if self._assign_at_once(call):
            return
        self._inbox.append(call)
        self._wake()
        if self._is_stopping:
            # Either the thread still finds the call and fails it, or this does.
            with contextlib.suppress(ValueError):
                self._inbox.remove(call)
                raise RuntimeError(SHUT_DOWN)

    def stop(self) -> None:
        """End the thread, which kills all workers."""
        self._is_stopping = True
        self._is_awake = False
        self._wake()
        self.thread.join(timeout=10)
        self._wake_w.close()

    def forget(self) -> None:
        """Let go of the workers, in a forked child: they are its parent's."""
        for sock in (self._wake_r, self._wake_w, *(worker.sock for worker in self._workers)):
            sock.close()
        self._selector.close()
        if self._nursery is not None:
            self._nursery.forget()

    def _wake(self) -> None:
        # One byte for any number of calls: the thread clears the flag before it looks.
        if not self._is_awake:
            self._is_awake = True
            with contextlib.suppress(OSError):
                self._wake_w.send(b"\0")

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        failure: Exception = RuntimeError(SHUT_DOWN)
        try:
            while not self._is_stopping:
                self._step()
        except Exception as error:
            logger.exception("the reward pool failed")
            failure = RewardError(f"the reward pool failed: {error!r}")
        finally:
            self._close(failure)

    def _step(self) -> None:
        with self._lock:
            patience_s = self._patience_s()
            self._is_watching = patience_s is not None
        events = self._selector.select(patience_s)
        with self._lock:
            for key, _ in events:
                key.data()
            now = time.monotonic()
            if now >= self._next_check:
                self._check(now)
            self._dispatch(now)
        self._hand_out()

    def _patience_s(self) -> float | None:
        if time.monotonic() < self._watches_until:
            return _CHECK_EVERY_S
        watched = len(self._workers) - len(self._idle)
        has_spares = len(self._idle) > self.size
        # The process that forks workers may end while it is asked for one: nothing else would
        # bring this thread back to the calls that wait for it.
        is_stuck = bool(self._queue) and not self._workers
        return _CHECK_EVERY_S if watched or has_spares or is_stuck else None

    def _on_wake(self) -> None:
        self._wake_r.recv(4096)
        self._is_awake = False
        while self._inbox:
            self._queue.append(self._inbox.popleft())

    def _close(self, failure: Exception) -> None:
        self._is_stopping = True
        with self._lock:
            self._fail_all(failure)
        self._hand_out()
        self._selector.close()
        self._wake_r.close()

    def _fail_all(self, failure: Exception) -> None:
        running = [worker.call for worker in self._workers if worker.call is not None]
        # A prefetched call goes back to the queue with its worker.
        for worker in list(self._workers):
            self._remove(worker)
            self._kill(worker)
        if self._nursery is not None:
            self._nursery.kill()
        while self._inbox:
            self._queue.append(self._inbox.popleft())
        for call in (*running, *self._queue):
            self._finish(call, failure)

    # --- calls --------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> None:
        while self._queue and self._num_busy < self.size:
            if self._queue[0].is_abandoned():
                self._queue.popleft()
            elif self._idle:
                self._assign(self._idle.pop(), self._queue.popleft(), now)
            else:
                self._fork_workers(now)
                return

    def _assign_at_once(self, call: Call) -> bool:
        """Give a call to an idle worker that knows its function, if nothing waits before it."""
        if not self._lock.acquire(blocking=False):
            return False  # the thread is at work, and will see the call in a moment
        try:
            is_free = self._is_watching and not self._is_stopping and self._num_busy < self.size
            if not is_free or self._inbox or self._queue:
                return False
            if not self._idle or call.function not in self._idle[-1].functions:
                return False
            self._assign(self._idle.pop(), call, time.monotonic())
            return True
        finally:
            self._lock.release()

    def _assign(self, worker: Worker, call: Call, now: float) -> None:
        message = self._call_message(call)
        if call.function not in worker.functions:
            worker.loading_since = now
            message = self._load_message(call.function) + message
        worker.call = call
        worker.started_at = now
        self._watches_until = now + _WATCH_ON_S
        self._num_busy += 1
        self._send(worker, message)
        self._prefetch(worker)

    def _prefetch(self, worker: Worker) -> None:
        """Give a busy worker its next call early, so that it need not wait for this thread.

        Only calls that should be quick, so that none waits long behind another. If one does, it
        goes back to the queue as well, and whoever comes to it first gives the reward.
        """
        if not self._queue or self._idle or self._num_busy < self.size:
            return
        call = self._queue[0]
        is_quick = self._mean_s.get(call.function, 1.0) < _PREFETCH_BELOW_S
        if is_quick and call.function in worker.functions and not worker.tx:
            worker.next_call = self._queue.popleft()
            worker.next_is_shared = False
            self._send(worker, self._call_message(call))

    def _call_message(self, call: Call) -> bytes:
        body = wire.FUNCTION_ID.pack(self._function_id(call.function)) + call.payload
        return wire.frame(wire.CALL, body)

    def _load_message(self, function: RewardFunction) -> bytes:
        body = (self._function_id(function), function.blob, tuple(function.origin))
        return wire.frame(wire.LOAD, pickle.dumps(body))

    def _function_id(self, function: RewardFunction) -> int:
        return self._function_ids.setdefault(function, len(self._function_ids))

    def _send(self, worker: Worker, message: bytes) -> None:
        try:
            sent = worker.sock.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has ended; its socket reports it too
        if sent < len(message):
            worker.tx = memoryview(message)[sent:]
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(worker.sock, both, lambda: self._on_worker(worker))

    def _on_worker(self, worker: Worker) -> None:
        if worker not in self._workers:
            return  # an event before this one, of the same round, has ended it
        if worker.tx:
            self._send_rest(worker)
        self._receive(worker)

    def _send_rest(self, worker: Worker) -> None:
        try:
            worker.tx = worker.tx[worker.sock.send(worker.tx) :]
        except BlockingIOError:
            return
        except OSError:
            worker.tx = memoryview(b"")
        if not worker.tx:
            self._selector.modify(
                worker.sock, selectors.EVENT_READ, lambda: self._on_worker(worker)
            )

    def _receive(self, worker: Worker) -> None:
        try:
            data = worker.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_hang_up(worker)
            return
        worker.rx += data
        for kind, payload in split_messages(worker.rx):
            self._on_message(worker, kind, payload)

    def _on_message(self, worker: Worker, kind: int, payload: bytes) -> None:
        call = worker.call
        if kind == wire.HELLO:
            (worker.pid,) = wire.WORKER_PID.unpack(payload)
            self._num_starting -= 1
            self._num_failed_starts = 0
            self._set_idle(worker, time.monotonic())
        elif call is None:
            return
        elif kind == wire.LOADED:
            worker.functions.add(call.function)
            worker.loading_since = None
            worker.started_at = time.monotonic()
        elif kind == wire.VALUE:
            self._complete(worker, call, wire.VALUE_BODY.unpack(payload)[0])
        elif kind == wire.INVALID:
            problem = f"reward function {call.function.name} {payload.decode()}"
            self._complete(worker, call, RewardError(problem))
        elif kind == wire.ERROR:
            self._complete(worker, call, unpack_error(call.function, payload))
        elif kind == wire.LOAD_ERROR:
            self._finish(call, load_error(call.function, payload))
            # The call that follows the failed import in its socket must not run.
            self._remove(worker)
            self._kill(worker)

    def _complete(self, worker: Worker, call: Call, outcome: float | Exception) -> None:
        """End a worker's call, after which it goes on with the next."""
        self._finish(call, outcome)
        now = time.monotonic()
        took_s = now - worker.started_at
        mean_s = self._mean_s.get(call.function, took_s)
        self._mean_s[call.function] = _MEAN_DECAY * mean_s + (1 - _MEAN_DECAY) * took_s
        if worker.next_call is None:
            self._set_idle(worker, now)
            return
        self._num_busy += worker.is_slow
        worker.is_slow = False
        worker.call, worker.next_call = worker.next_call, None
        worker.started_at = now
        self._prefetch(worker)

    def _finish(self, call: Call, outcome: float | Exception) -> None:
        self._done.setdefault(call.loop, []).append((call, outcome))

    def _hand_out(self) -> None:
        if not self._done:
            return
        done, self._done = self._done, {}
        for loop, outcomes in done.items():
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(_deliver, outcomes)

    # --- workers ------------------------------------------------------------------------------

    def _set_idle(self, worker: Worker, now: float) -> None:
        self._release(worker)
        worker.idle_since = now
        self._idle.append(worker)

    def _release(self, worker: Worker) -> None:
        """Take the worker's call off it."""
        if worker.call is not None and not worker.is_slow:
            self._num_busy -= 1
        self._requeue_next(worker)
        worker.call = worker.next_call = None
        worker.is_slow = False
        worker.loading_since = None

    def _requeue_next(self, worker: Worker) -> None:
        if worker.next_call is not None and not worker.next_is_shared:
            worker.next_is_shared = True
            self._queue.appendleft(worker.next_call)

    def _fork_workers(self, now: float) -> None:
        wanted = min(
            len(self._queue) - self._num_starting,
            self.size - self._num_busy - self._num_starting,
            self.max_workers - len(self._workers),
        )
        if wanted <= 0:
            return
        if self._nursery is None:
            self._nursery = Nursery()
            self._selector.register(self._nursery.control, selectors.EVENT_READ, self._on_nursery)
        try:
            if self._may_preload:
                self._nursery.preload(self._queue[0].function.origin)
            for _ in range(wanted):
                self._add_worker(self._nursery.fork_worker(self.max_memory_bytes), now)
        except OSError:
            self._on_nursery_end()

    def _add_worker(self, sock: socket.socket, now: float) -> None:
        worker = Worker(sock, now)
        self._workers.add(worker)
        self._num_starting += 1
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._on_worker(worker))

    def _on_hang_up(self, worker: Worker) -> None:
        """Note that a worker has ended; the nursery reports how, a moment later."""
        if worker.ended_at is None:
            worker.ended_at = time.monotonic()
            self._selector.unregister(worker.sock)
            if worker in self._idle:
                self._idle.remove(worker)

    def _on_nursery(self) -> None:
        if self._nursery is None:
            return  # it was given up earlier in the same round
        notices = self._nursery.read_notices()
        if notices is None:
            self._on_nursery_end()
            return
        for kind, payload in notices:
            if kind == wire.EXITED:
                self._on_exit(*wire.EXIT_NOTICE.unpack(payload))
            elif kind == wire.PRELOADED_WITH_THREADS:
                # A process with threads must not fork: start over, and let workers import.
                self._may_preload = False
                self._on_nursery_end()
                return

    def _on_exit(self, pid: int, code: int) -> None:
        worker = next((worker for worker in self._workers if worker.pid == pid), None)
        if worker is None:
            return
        if worker.ended_at is None:
            self._receive(worker)  # what it still said
        self._bury(worker, describe_exit(code))

    def _on_nursery_end(self) -> None:
        """Start over without the nursery, which took its workers along."""
        nursery, self._nursery = self._nursery, None
        if nursery is None:
            return
        if nursery.is_preloading:
            self._may_preload = False
        self._selector.unregister(nursery.control)
        nursery.kill()
        for worker in list(self._workers):
            self._kill(worker)
            self._bury(worker, "ended with the process that started it")

    def _bury(self, worker: Worker, how: str) -> None:
        if worker not in self._workers:
            return
        call = worker.call
        is_start = worker.pid is None
        self._remove(worker)
        if call is not None:
            message = f"the worker of reward function {call.function.name} {how}"
            self._finish(call, RewardWorkerDiedError(message))
        if is_start:
            self._num_failed_starts += 1
            if self._num_failed_starts >= _MAX_FAILED_STARTS:
                self._give_up(how)

    def _give_up(self, how: str) -> None:
        """Fail what waits: the machine does not let workers start."""
        self._num_failed_starts = 0
        error = RewardError(f"no reward worker could be started: the last one {how}")
        while self._queue:
            self._finish(self._queue.popleft(), error)

    def _remove(self, worker: Worker) -> None:
        self._workers.discard(worker)
        self._release(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.pid is None:
            self._num_starting -= 1
        if worker.ended_at is None:
            self._selector.unregister(worker.sock)
        worker.sock.close()

    def _kill(self, worker: Worker) -> None:
        if worker.pid is not None:
            kill_group(worker.pid)

    # --- the clock ----------------------------------------------------------------------------

    def _check(self, now: float) -> None:
        self._next_check = now + _CHECK_EVERY_S
        for worker in list(self._workers):
            if worker.ended_at is not None:
                if now - worker.ended_at > _EXIT_STATUS_WITHIN_S:
                    self._bury(worker, "ended")
            elif worker.pid is None:
                if now - worker.started_at > IMPORT_LIMIT_S:
                    self._on_nursery_end()
                    return
            elif worker.call is not None:
                self._check_call(worker, worker.call, now)
        self._retire_spares(now)

    def _check_call(self, worker: Worker, call: Call, now: float) -> None:
        busy_s = now - worker.started_at
        if not worker.is_slow and busy_s > SLOW_AFTER_S:
            worker.is_slow = True
            self._num_busy -= 1
            self._requeue_next(worker)
        if worker.loading_since is not None:
            limit_s = max(IMPORT_LIMIT_S, call.timeout_s)
            error: Exception = ConfigError(
                f"importing {call.function.origin.module} for its reward function "
                f"{call.function.name} took longer than {limit_s:g} s"
            )
        else:
            limit_s = call.timeout_s
            error = AttemptTimeoutError(
                f"reward function {call.function.name} ran longer than {limit_s:g} s"
            )
        if busy_s > limit_s:
            self._remove(worker)
            self._kill(worker)
            self._finish(call, error)

    def _retire_spares(self, now: float) -> None:
        while len(self._idle) > self.size and now - self._idle[0].idle_since > _SPARE_KEPT_S:
            self._remove(self._idle[0])  # it ends when its socket closes


def _deliver(outcomes: list[tuple[Call, float | Exception]]) -> None:
    for call, outcome in outcomes:
        if call.future.done():
            continue
        if isinstance(outcome, float):
            call.future.set_result(outcome)
        else:
            call.future.set_exception(outcome)
