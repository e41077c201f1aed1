"""Being stopped in the middle: signals are heard where the command waits, and nowhere else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """Raised where a signal asks the process to end: what it began is undone first."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {number.name}")
        self.number = number


class _Listener:
    """A listener for signals; one that comes between two waits is raised at the next one.

    An exception at any other place could come between the start of a program and the note of its
    number, or between a failure and the taking back of what was done.
    """

    is_open = False
    closers = 0
    heard: signal.Signals | None = None
    has_told = False

    def hear(self, number: int, _: FrameType | None = None) -> None:
        self.heard = signal.Signals(number)
        # Outside a wait the signal is only noted, and raised by the next wait.
        if self.is_open:
            self.tell()

    def tell(self) -> None:
        # The first stop is taken back; a second one must not cut that short.
        if self.heard and not self.closers and not self.has_told:
            self.has_told = True
            raise Stopped(self.heard)


_ear = _Listener()


@contextmanager
def stoppable() -> Generator[None]:
    """Turn signals that end a process into exceptions where the work waits.

    One that comes behind the last wait comes too late, and changes nothing.
    """
    _ear.heard, _ear.has_told = None, False
    # The handlers of whoever calls are put back, as this may run inside another program.
    before = {name: signal.signal(getattr(signal, name), _ear.hear) for name in _known_signals()}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
        _ear.heard = None  # it was this command that was stopped, and not the next one


@contextmanager
def listening() -> Generator[None]:
    """Let a signal end a wait inside the block.

    Raises:
        Stopped: There was a signal, inside or since the last wait.
    """
    _ear.is_open = True
    try:
        _ear.tell()
        yield
    finally:
        _ear.is_open = False


@contextmanager
def undisturbed() -> Generator[None]:
    """Defer signals: an undo is not stopped half way."""
    _ear.closers += 1
    try:
        yield
    finally:
        _ear.closers -= 1


def _known_signals() -> list[str]:
    if threading.current_thread() is not threading.main_thread():
        return []  # where Python allows no handlers
    return [name for name in _SIGNALS if hasattr(signal, name)]
