"""When something periodic is due, by steps, epochs or seconds."""

from __future__ import annotations

import time
from typing import Protocol


class Frequencies(Protocol):
    """Is any configuration section with periods; null is never."""

    freq_epochs: int | None
    freq_steps: int | None
    freq_secs: int | None


class PeriodicTimer:
    """Says after each step whether one of the periods has passed since it last said so.

    Args:
        frequencies: The periods.
        steps_per_epoch: Steps of one pass over the dataset.
        step: Finished steps at the start.
    """

    def __init__(self, frequencies: Frequencies, steps_per_epoch: int, step: int = 0) -> None:
        self._frequencies = frequencies
        self._steps_per_epoch = steps_per_epoch
        self._last_step = step
        self._last_time = time.monotonic()

    def is_due(self, step: int) -> bool:
        """Says whether it is time after ``step`` finished steps; if so the next period starts."""
        f = self._frequencies
        epochs = step // self._steps_per_epoch - self._last_step // self._steps_per_epoch
        is_due = (
            (f.freq_steps is not None and step - self._last_step >= f.freq_steps)
            or (f.freq_epochs is not None and epochs >= f.freq_epochs)
            or (f.freq_secs is not None and time.monotonic() - self._last_time >= f.freq_secs)
        )
        if is_due:
            self._last_step, self._last_time = step, time.monotonic()
        return is_due
