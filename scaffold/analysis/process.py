"""Other programs, run to their end or ended with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_running: set[subprocess.Popen[Any]] = set()


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
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "replace"}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(argv, cwd=folder, env={**os.environ, **settings}, **options) as process:
        output, errors = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(argv, process.returncode, output, errors)


@contextmanager
def running(argv: Sequence[str], **options: Any) -> Generator[subprocess.Popen[Any]]:
    """Run a program without input during a block, which ends it and all that it started.

    Args:
        argv: The program and its arguments.
        options: Of ``subprocess.Popen``.

    Raises:
        OSError: It cannot be run.
    """
    # A group of its own, so that what it starts can be killed with it.
    options |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
    with subprocess.Popen(argv, **options) as process:
        _running.add(process)
        try:
            yield process
        finally:
            _running.discard(process)
            _kill(process)


def end_like_ctrl_c() -> None:
    """Make a request to end arrive as Ctrl-C does, so that what was started is ended, too.

    Threads of a pool cannot: whoever makes the pool calls it.
    """
    with suppress(ValueError):
        # ValueError outside of the main thread.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_all() -> None:
    """End every running program, for whoever stops waiting: a Ctrl-C does not reach them."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[Any]) -> None:
    """End the process and its group; a program that has come to its end may have left children."""
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
