"""Where a probe is: one line per stage, so that the end of a killed process is explained."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

_listener: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None] | None) -> None:
    """Makes `stage` tell a listener from now on; None for nobody."""
    global _listener
    _listener = listener


def log_stages(path: Path) -> None:
    """Makes `stage` write to a file from now on."""
    started_s = time.monotonic()

    def write(name: str) -> None:
        at_s = round(time.monotonic() - started_s, 2)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": "stage", "name": name, "at_s": at_s}) + "\n")

    listen(write)


def stage(name: str) -> None:
    """Says what begins now.

    Args:
        name: What is done, such as "measuring attention".
    """
    if _listener is not None:
        _listener(name)
