"""When something periodic is due, by steps, epochs or seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
        self._was_due = False
        self._period = frequencies.freq_secs if first_secs is None else first_secs

    def is_due(self, step: int) -> bool:
        """Return whether it is time after ``step`` finished steps; if so the next period starts.

        Who asks again after the same step gets the same answer: of several models that are saved
        after a step each asks.
        """
        if step == self._last_step:
            return self._was_due
        f = self._frequencies
        is_due = (
            self._passed_multiple(step, f.freq_steps, 1)
            or self._passed_multiple(step, f.freq_epochs, self._steps_per_epoch)
            or (self._period is not None and time.monotonic() - self._last_time >= self._period)
        )
        self._last_step, self._was_due = step, is_due
        if is_due:
            self._last_time, self._period = time.monotonic(), f.freq_secs
        return is_due

    def state_dict(self) -> dict[str, float]:
        """Return the steps and the seconds since something was due."""
        return {"step": self._last_step, "seconds": time.monotonic() - self._last_time}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take up what ``state_dict`` returned; the time between the two does not count."""
        self._last_step, self._was_due = int(state["step"]), False
        self._last_time = time.monotonic() - state["seconds"]

    def _passed_multiple(self, step: int, frequency: int | None, unit: int) -> bool:
        """Return whether a multiple of the period was passed; they count from the run's first step.

        So a resumed run saves and evaluates at the very steps at which an uninterrupted one does.
        """
        if frequency is None:
            return False
        period = frequency * unit
        return step // period > self._last_step // period


class EpochStepTimeFreqCtl:
    """Return at each check whether a period of epochs, steps or seconds has passed.

    Args:
        freq_epoch: Null is never, as for the others.
        freq_step: In steps.
        freq_sec: In seconds.
    """

    def __init__(
        self,
        freq_epoch: int | None = None,
        freq_step: int | None = None,
        freq_sec: float | None = None,
    ) -> None:
        self._periods = {"epochs": freq_epoch, "steps": freq_step}
        self._counts = dict.fromkeys(self._periods, 0)
        self._freq_sec = freq_sec
        self._last_time = time.monotonic()

    def check(self, epochs: int, steps: int) -> bool:
        """Count what has passed since the last check, and return whether a period is over."""
        is_due = False
        for name, passed in (("epochs", epochs), ("steps", steps)):
            self._counts[name] += passed
            period = self._periods[name]
            if period is not None and self._counts[name] >= period:
                self._counts[name] %= period
                is_due = True
        if self._freq_sec is not None and time.monotonic() - self._last_time >= self._freq_sec:
            is_due = True
        if is_due:
            self._last_time = time.monotonic()
        return is_due

    def state_dict(self) -> dict[str, float]:
        """Return how far the periods have gone."""
        return {**self._counts, "seconds": time.monotonic() - self._last_time}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take up what ``state_dict`` returned."""
        self._counts = {name: int(state[name]) for name in self._counts}
        self._last_time = time.monotonic() - state["seconds"]
