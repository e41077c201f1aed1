"""Ending a run between two steps: a signal asks for it, a second one insists."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger("Trainer")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """Raised once a run that was asked to stop has written its checkpoint.

    Args:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status that a shell expects."""
        return 128 + self.number


class StopSignals:
    """Notes Ctrl-C and SIGTERM inside of its block; a second one raises at once.

    Outside of the main thread, where Python takes no handlers, signals stay as they were.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            raise Stopped(number)
        self.number = number
        name = signal.Signals(number).name
        logger.warning("%s: stopping after this step; a second one stops at once", name)
