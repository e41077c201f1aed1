"""The processes of a job: which are there, and how all of them are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from scaffold.debug.records import Process

GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)
# How long processes have to end by themselves, at first and then after SIGTERM.
TERM_GRACE_S = 3.0


def is_alive(process: Process) -> bool:
    """Return whether the process that made a record is still there, and no other one of its pid."""
    try:
        found = psutil.Process(process.pid)
        # Pids are used again; a process that is younger than the record is another one.
        is_same = found.create_time() <= process.begun_s + 1
        return is_same and found.status() != psutil.STATUS_ZOMBIE
    except GONE:
        return False


def start(
    argv: list[str], env: dict[str, str], folder: Path | None = None, *, quiet: bool
) -> subprocess.Popen[bytes]:
    """Start a job in a session of its own, so that it can be ended as a whole.

    Args:
        folder: Where it runs; here where it is None.
        quiet: Whether its output goes to the error stream, because another one takes the other.
    """
    return subprocess.Popen(
        argv,
        env=env,
        cwd=folder,
        stdout=sys.stderr if quiet else None,
        start_new_session=True,
    )


def end_job(job: subprocess.Popen[bytes], mark: tuple[str, str]) -> None:
    """End a job with every process it started, also those in sessions of their own.

    Args:
        mark: The environment variable and value that processes of this job alone have.
    """
    # Before the first signal: once a parent is gone, its children can no longer be found by it.
    below: list[psutil.Process] = []
    with suppress(*GONE):
        below = psutil.Process(job.pid).children(recursive=True)
    found = {each.pid: each for each in [*below, *marked(mark)]}
    with suppress(OSError):
        os.killpg(job.pid, signal.SIGTERM)
    # A launcher ends its own workers; the rest get a signal first, and are killed then.
    with suppress(subprocess.TimeoutExpired):
        job.wait(TERM_GRACE_S)
    _end_all(list(found.values()), mark)
    with suppress(OSError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def end_left(mark: tuple[str, str]) -> None:
    """End the processes that a finished job left behind, by the mark that `end_job` takes."""
    _end_all(marked(mark), mark)


def _end_all(found: list[psutil.Process], mark: tuple[str, str]) -> None:
    _each(found, signal.SIGTERM)
    _, alive = psutil.wait_procs(found, timeout=TERM_GRACE_S)
    # Looked up again, as new workers may have been started meanwhile.
    _each([*alive, *marked(mark)], signal.SIGKILL)


def marked(mark: tuple[str, str]) -> list[psutil.Process]:
    """Return the processes whose environment has the mark, but for this one."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        # The environment of other users' processes cannot be read.
        with suppress(*GONE, OSError):
            if process.pid != os.getpid() and process.environ().get(mark[0]) == mark[1]:
                found.append(process)
    return found


def _each(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(*GONE):
            process.send_signal(number)
