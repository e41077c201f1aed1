"""Runs code of the target in a process that can always be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TAIL_CHARS = 4000
"""How much of a process's output findings may quote."""


_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Finished:
    """How a process ended; ``status`` None means that it ran out of time and was killed."""

    status: int | None
    output: str

    def describe(self) -> str:
        """Return the end in words."""
        if self.status is None:
            return "was killed at the time limit"
        if self.status >= 0:
            return f"ended with status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"

    def last_lines(self, count: int = 12) -> str:
        """Return the end of the output."""
        return "\n".join(self.output.strip().splitlines()[-count:])


def run_limited(
    argv: Sequence[str], root: Path, timeout_s: float, extra_env: dict[str, str]
) -> Finished:
    """Run a program in the target's folder, with everything it starts, until the limit at most.

    Args:
        argv: The program.
        root: The target's folder.
        timeout_s: When it is killed.
        extra_env: Environment variables beside those of `target_environment`.
    """
    end_like_ctrl_c()
    # A file and no pipe: what the program leaves running must not keep the reader waiting.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv,
            cwd=root,
            env={**target_environment(root), **extra_env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A group of its own, so that what it starts can be killed with it.
            start_new_session=True,
        )
        _running.add(process)
        try:
            status: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _running.discard(process)
            _kill(process)
        output.seek(0, os.SEEK_END)
        # Only the end is read: a loop may have printed gigabytes.
        output.seek(max(0, output.tell() - TAIL_CHARS))
        return Finished(status, output.read().decode("utf-8", "replace"))


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


def target_environment(root: Path) -> dict[str, str]:
    """Return the environment of the target's code: importable, offline, leaving no traces."""
    env = dict(os.environ)
    paths = [str(root), *filter(None, [env.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["CUDA_VISIBLE_DEVICES"] = ""  # a tiny model needs no accelerator, and others may use it
    env.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    env.setdefault("OMP_NUM_THREADS", "1")
    return env


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group; a program that has come to its end may have left children."""
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
