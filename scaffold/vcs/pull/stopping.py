"""Being stopped in the middle: signals as exceptions, and the parts that no signal disturbs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """Is raised where a signal asks the process to end: what it began is taken back first."""


@contextmanager
def stoppable() -> Generator[None]:
    """Turns signals that end a process into exceptions, so that what was begun is taken back."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(f"stopped by {signal.Signals(number).name}")

    before = {name: signal.signal(getattr(signal, name), stop) for name in _known_signals()}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@contextmanager
def undisturbed() -> Generator[None]:
    """Lets signals wait: taking back is not to be stopped half way."""
    before = {
        name: signal.signal(getattr(signal, name), signal.SIG_IGN) for name in _known_signals()
    }
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _known_signals() -> list[str]:
    if threading.current_thread() is not threading.main_thread():
        return []  # where Python allows no handlers
    return [name for name in _SIGNALS if hasattr(signal, name)]
