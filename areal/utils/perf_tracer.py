"""A time-line of what runs when, for chrome://tracing or Perfetto; costs next to nothing when off.

Scopes are spans of the program. A session is one episode; its phases ("generate", "reward") also
tell the executor what an episode is waiting for when something takes too long.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from areal.api.config.logging import PerfTracerConfig

F = TypeVar("F", bound=Callable[..., Any])


class Stage:
    """The name of the phase that an episode is in."""

    __slots__ = ("name",)

    def __init__(self, name: str = "start") -> None:
        self.name = name


# The executor gives every episode a Stage of its own; phases write to it.
current_stage: ContextVar[Stage | None] = ContextVar("areal_episode_stage", default=None)


class PerfTracer:
    """Collects events and appends them to one file per process.

    Args:
        config: Where to write, and whether to record at all.
        rank: This process's number, for the file's name.
        role: What this process does ("actor", "rollout").
    """

    def __init__(self, config: PerfTracerConfig, rank: int = 0, role: str = "main") -> None:
        self.config = config
        self.rank = rank
        self.role = role
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._step = 0
        self._has_file = False
        sessions = config.session_tracer
        self._has_sessions = sessions is not None and sessions.enabled
        self._flush_threshold = sessions.flush_threshold if sessions is not None else 0

    @property
    def path(self) -> str:
        """The file that events go to."""
        config = self.config
        folder = os.path.join(config.fileroot, config.experiment_name, config.trial_name)
        return os.path.join(folder, "perf_tracer", f"{self.role}-rank{self.rank}.json")

    @property
    def is_recording(self) -> bool:
        """True where events of the current step are kept."""
        steps = self.config.profile_steps
        return self.config.enabled and (steps is None or self._step in steps)

    def add(
        self,
        name: str,
        category: str,
        start_s: float,
        end_s: float | None = None,
        args: dict[str, Any] | None = None,
    ) -> None:
        """Add a span, or without an end a moment; times are of ``time.perf_counter``."""
        event: dict[str, Any] = {
            "name": name,
            "cat": category or "default",
            "ph": "i" if end_s is None else "X",
            "ts": start_s * 1e6,  # the format counts microseconds
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "args": args or {},
        }
        if end_s is not None:
            event["dur"] = (end_s - start_s) * 1e6
        with self._lock:
            self._events.append(event)

    def add_phase(self, name: str, start_s: float, end_s: float, args: dict[str, Any]) -> None:
        """Add a phase of a session, and write when enough have come together."""
        if not self._has_sessions:
            return
        self.add(name, "session", start_s, end_s, args)
        if len(self._events) >= self._flush_threshold:
            self._write()

    def save(self, step: int | None = None, force: bool = False) -> None:
        """Write what has been collected, every ``save_interval`` steps or if forced.

        Args:
            step: The step that has just ended.
            force: Writes in any case.
        """
        is_due = force or step is None or (step + 1) % self.config.save_interval == 0
        if self.config.enabled and is_due:
            self._write()
        if step is not None:
            self._step = step + 1

    def _write(self) -> None:
        with self._lock:
            events, self._events = self._events, []
            if not events:
                return
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            # The format allows an array without its end, so a killed run leaves a readable file.
            with open(self.path, "a" if self._has_file else "w", encoding="utf-8") as file:
                file.write("" if self._has_file else "[\n")
                file.writelines(json.dumps(event, default=str) + ",\n" for event in events)
            self._has_file = True


_tracer: PerfTracer | None = None


def configure(config: PerfTracerConfig, rank: int = 0, role: str = "main") -> PerfTracer:
    """Set up this process's tracer."""
    global _tracer
    _tracer = PerfTracer(config, rank, role)
    return _tracer


def get_tracer() -> PerfTracer | None:
    """Return this process's tracer; None before ``configure``."""
    return _tracer


def save(step: int | None = None, force: bool = False) -> None:
    """Write the time-line, if there is one; see ``PerfTracer.save``."""
    if _tracer is not None:
        _tracer.save(step, force)


def instant(name: str, category: str = "", args: dict[str, Any] | None = None) -> None:
    """Mark a moment."""
    if _tracer is not None and _tracer.is_recording:
        _tracer.add(name, category, time.perf_counter(), None, args)


@contextlib.contextmanager
def trace_scope(
    name: str, category: str = "", args: dict[str, Any] | None = None
) -> Iterator[None]:
    """Mark the span of a block."""
    tracer = _tracer
    if tracer is None or not tracer.is_recording:
        yield
        return
    start_s = time.perf_counter()
    try:
        yield
    finally:
        tracer.add(name, category, start_s, time.perf_counter(), args)


@contextlib.asynccontextmanager
async def atrace_scope(
    name: str, category: str = "", args: dict[str, Any] | None = None
) -> AsyncIterator[None]:
    """Trace a scope as ``trace_scope`` does, for ``async with``."""
    with trace_scope(name, category, args):
        yield


def trace_perf(name: str, category: str = "") -> Callable[[F], F]:
    """Return a decorator that marks the span of every call, of plain and coroutine functions."""
    return _around(lambda: trace_scope(name, category))


def trace_session(name: str) -> Callable[[F], F]:
    """Return a decorator that makes every call a phase of the episode around it."""
    return _around(lambda: _Phase(name, None, None))


def session_context() -> Callable[[F], F]:
    """Return a decorator that marks a function as a part of an episode."""
    return _around(lambda: _Phase("episode", None, None))


def atrace_session_phase(
    name: str,
    start_payload: dict[str, Any] | None = None,
    end_payload: dict[str, Any] | None = None,
) -> _Phase:
    """Return a context manager, for ``async with``, that marks a phase of an episode.

    Args:
        name: Of the phase, such as "generate" or "reward".
        start_payload: What to note with it.
        end_payload: What else to note; it is read when the phase ends.
    """
    return _Phase(name, start_payload, end_payload)


class _Phase:
    __slots__ = ("_end_payload", "_name", "_outer", "_start_payload", "_start_s")

    def __init__(
        self, name: str, start_payload: dict[str, Any] | None, end_payload: dict[str, Any] | None
    ) -> None:
        self._name = name
        self._start_payload = start_payload
        self._end_payload = end_payload
        self._outer = ""
        self._start_s = 0.0

    def __enter__(self) -> _Phase:
        stage = current_stage.get()
        if stage is not None:
            self._outer, stage.name = stage.name, self._name
        if _tracer is not None and _tracer.is_recording:
            self._start_s = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stage = current_stage.get()
        if stage is not None:
            stage.name = self._outer
        if self._start_s and _tracer is not None:
            payload = (self._start_payload or {}) | (self._end_payload or {})
            _tracer.add_phase(self._name, self._start_s, time.perf_counter(), payload)

    async def __aenter__(self) -> _Phase:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


def _around(make_context: Callable[[], contextlib.AbstractContextManager[Any]]) -> Any:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
                with make_context():
                    return await function(*args, **kwargs)

            return async_wrapper

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make_context():
                return function(*args, **kwargs)

        return wrapper

    return decorate
