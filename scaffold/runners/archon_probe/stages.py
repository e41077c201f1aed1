"""The progress of a probe, one line per stage, which explains the end of a killed process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

_listener: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None] | None) -> None:
    """Set who hears of stages from now on; None for nobody."""
    global _listener
    _listener = listener


def log_stages(path: Path) -> None:
    """Append a JSON line to a file for each stage from now on."""
    started_s = time.monotonic()

    def write(name: str) -> None:
        at_s = round(time.monotonic() - started_s, 2)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": "stage", "name": name, "at_s": at_s}) + "\n")

    listen(write)


def stage(name: str) -> None:
    """Report what begins now.

    Args:
        name: What is done, such as "measuring attention".
    """
    if _listener is not None:
        _listener(name)
