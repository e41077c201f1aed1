"""When something periodic is due, by steps, epochs or seconds."""

from __future__ import annotations

import time
from typing import Protocol


class Frequencies(Protocol):
    """Any configuration section with periods; null is never."""

    freq_epochs: int | None
    freq_steps: int | None
    freq_secs: int | None


class PeriodicTimer:
    """Return after each step whether one of the periods has passed since it was asked last.

    Args:
        frequencies: The periods.
        steps_per_epoch: Steps of one pass over the dataset.
        step: Finished steps at the start.
        first_secs: Makes the first period of seconds this long.
    """

    def __init__(
        self,
        frequencies: Frequencies,
        steps_per_epoch: int,
        step: int = 0,
        first_secs: float | None = None,
    ) -> None:
        self._frequencies = frequencies
        self._steps_per_epoch = steps_per_epoch
        self._last_step = step
        self._last_time = time.monotonic()
        self._period = frequencies.freq_secs if first_secs is None else first_secs

    def is_due(self, step: int) -> bool:
        """Return whether it is time after ``step`` finished steps; if so the next period starts."""
        f = self._frequencies
        is_due = (
            self._passed_multiple(step, f.freq_steps, 1)
            or self._passed_multiple(step, f.freq_epochs, self._steps_per_epoch)
            or (self._period is not None and time.monotonic() - self._last_time >= self._period)
        )
        self._last_step = step
        if is_due:
            self._last_time = time.monotonic()
            self._period = f.freq_secs
        return is_due

    def _passed_multiple(self, step: int, frequency: int | None, unit: int) -> bool:
        """Return whether a multiple of the period was passed; they count from the run's first step.

        So a resumed run saves and evaluates at the very steps at which an uninterrupted one does.
        """
        if frequency is None:
            return False
        period = frequency * unit
        return step // period > self._last_step // period
