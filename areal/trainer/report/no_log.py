"""The log of a process that leaves logging to the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NoLog:
    """Takes what ``RunLog`` takes and writes nothing."""

    def step(self, step: int, stats: Mapping[str, Any], episodes: Sequence[Any] = ()) -> None:
        """Forgets a step."""

    def eval(self, step: int, stats: Mapping[str, Any]) -> None:
        """Forgets an evaluation."""

    def close(self, status: str = "completed") -> None:
        """Leaves nothing behind."""
