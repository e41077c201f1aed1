"""Another program, run to its end for what it writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run_text(
    argv: Sequence[str], folder: Path | None, timeout_s: float, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that is given no input, and return what it wrote, as text.

    Args:
        argv: The program and its arguments.
        folder: Where it runs; None for the folder of this process.
        timeout_s: How long it may take.
        settings: Environment variables, besides those of this process.

    Raises:
        OSError: It cannot be run.
        subprocess.TimeoutExpired: It did not end in time, and was killed.
    """
    return subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
