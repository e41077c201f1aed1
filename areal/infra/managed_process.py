"""A command that is started, watched, started again and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

# The process that started this one; who finds it set ends when that process does.
PARENT_VARIABLE = "AREAL_PARENT_PID"

_TAIL_BYTES = 4096


def read_end(log_path: Path) -> str:
    """Return the last few thousand bytes of a log; "" where there is none."""
    if not log_path.is_file():
        return ""
    with log_path.open("rb") as log:
        log.seek(max(0, log_path.stat().st_size - _TAIL_BYTES))
        return log.read().decode(errors="replace").strip()


class Process(ABC):
    """A command that can be started again, wherever it runs.

    Args:
        name: For messages and the log file.
        log_path: Where its output goes; None leaves it on this console.
    """

    def __init__(self, name: str, log_path: Path | None) -> None:
        self.name = name
        self.log_path = log_path
        self.num_starts = 0
        self.started_at = 0.0

    @abstractmethod
    def start(self) -> None:
        """Start it."""

    @abstractmethod
    def exit_code(self) -> int | None:
        """Return how it ended, negative for a signal; None while it runs."""

    @abstractmethod
    def terminate(self) -> None:
        """Ask the command itself to end, which ends in order what it started."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started."""

    @abstractmethod
    def stop(self, grace_s: float = 10.0) -> None:
        """End it: politely first, by force after ``grace_s`` seconds."""

    def last_words(self) -> str:
        """Return the end of its log."""
        return "" if self.log_path is None else read_end(self.log_path)

    def _note_start(self) -> None:
        self.num_starts += 1
        self.started_at = time.monotonic()


class ManagedProcess(Process):
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
        super().__init__(name, log_path)
        self._command = list(command)
        self._environment = dict(environment)
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
            if self.log_path is not None:
                self.log_path.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(self.log_path.open("ab"))
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
        self._note_start()

    @property
    def pid(self) -> int | None:
        """The process id, None before the first start."""
        return None if self._process is None else self._process.pid

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def terminate(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, grace_s: float = 10.0) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        # Also what the command left behind in its group.
        self.signal(signal.SIGKILL)
        self._process.wait()
