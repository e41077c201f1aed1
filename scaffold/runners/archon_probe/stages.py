"""Where a probe is: one line per stage, so that the end of a killed process is explained."""

from __future__ import annotations

import json
import time
from pathlib import Path

_log: Path | None = None
_started_s = 0.0


def log_stages(path: Path) -> None:
    """Makes `stage` write to a file from now on."""
    global _log, _started_s
    _log, _started_s = path, time.monotonic()


def stage(name: str) -> None:
    """Says what begins now; without a file it is said to nobody.

    Args:
        name: What is done, such as "measuring attention".
    """
    if _log is None:
        return
    row = {"event": "stage", "name": name, "at_s": round(time.monotonic() - _started_s, 2)}
    with _log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
