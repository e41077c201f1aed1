"""The log of a process that leaves logging to the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NoLog:
    """Takes what ``RunLog`` takes and writes nothing."""

    def step(self, step: int, stats: Mapping[str, Any], episodes: Sequence[Any] = ()) -> None:
        """Forget a step."""

    def eval(self, step: int, stats: Mapping[str, Any]) -> None:
        """Forget an evaluation."""

    def close(self, status: str = "completed") -> None:
        """Leave nothing behind."""
