"""A command that is started, watched, started again and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# The process that started this one; who finds it set ends when that process does.
PARENT_VARIABLE = "AREAL_PARENT_PID"

_GRACE_S = 10.0
_TAIL_BYTES = 4096


def read_end(log_path: Path) -> str:
    """Return the last few thousand bytes of a log; "" where there is none."""
    if not log_path.is_file():
        return ""
    with log_path.open("rb") as log:
        log.seek(max(0, log_path.stat().st_size - _TAIL_BYTES))
        return log.read().decode(errors="replace").strip()


class ManagedProcess:
    """One command in a process group of its own, so that it can be ended with all it started.

    Args:
        name: For messages and the log file.
        command: What to run.
        environment: Beside that of this process.
        log_path: Where its output goes; None leaves it on this console.
        folder: Where it runs; None takes that of this process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log_path: Path | None = None,
        folder: str | None = None,
    ) -> None:
        self.name = name
        self.num_starts = 0
        self.started_at = 0.0
        self._command = list(command)
        self._environment = dict(environment)
        self._log_path = log_path
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command; what it leaves in its log before stays there.

        Call it in a thread that lives as long as the command: the kernel ends the command with
        the thread.
        """
        environment = {**os.environ, **self._environment, PARENT_VARIABLE: str(os.getpid())}
        with contextlib.ExitStack() as stack:
            output = None
            if self._log_path is not None:
                self._log_path.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(self._log_path.open("ab"))
            self._process = subprocess.Popen(
                self._command,
                env=environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output is not None else None,
                # Ctrl-C reaches the launcher alone, which ends its children in order.
                start_new_session=True,
            )
        self.num_starts += 1
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int | None:
        """The process id, None before the first start."""
        return None if self._process is None else self._process.pid

    def exit_code(self) -> int | None:
        """Return how it ended, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def last_words(self) -> str:
        """Return the end of its log."""
        return "" if self._log_path is None else read_end(self._log_path)

    def signal(self, number: int) -> None:
        """Send a signal to the command and all of its group that is left."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def terminate(self) -> None:
        """Ask the command itself to end, which ends in order what it started."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """End it: politely first, by force after ``grace_s`` seconds."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        # Also what the command left behind in its group.
        self.signal(signal.SIGKILL)
        self._process.wait()
