"""Starts the nursery of a reward pool and speaks with it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys

from areal.api.reward_pool import worker as wire
from areal.api.reward_pool.worker import Origin

# A grader is one thread of work; without this, numerical libraries would start one per core in
# every worker.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Nursery:
    """The process that forks workers, seen from the pool.

    Make it in the thread that owns it: on Linux the process is killed when that thread ends, so
    that nothing stays behind however the trainer dies.
    """

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        self._num_preloading = 0
        self._preloaded: set[Origin] = set()
        self._rx = bytearray()
        env = dict.fromkeys(_ONE_THREAD, "1") | dict(os.environ)
        with theirs:
            fd = str(theirs.fileno())
            self.process = subprocess.Popen(
                [sys.executable, "-P", wire.__file__, fd, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl-C in the terminal is the trainer's to handle
                env=env,
            )

    @property
    def is_preloading(self) -> bool:
        """True while an import asked for has not come to its end."""
        return self._num_preloading > 0

    def preload(self, origin: Origin) -> None:
        """Have a module imported once, for every worker forked from now on."""
        # The main program is left to the workers: it may well start threads or a run.
        if origin.module != "__main__" and origin not in self._preloaded:
            self._preloaded.add(origin)
            self._num_preloading += 1
            self.control.sendall(wire.frame(wire.PRELOAD, pickle.dumps(tuple(origin))))

    def fork_worker(self, max_memory_bytes: int) -> socket.socket:
        """Return the pool's end of a new worker's socket; the worker sends a greeting on it."""
        ours, theirs = socket.socketpair()
        with theirs:
            body = wire.FORK_BODY.pack(max_memory_bytes)
            message = wire.frame(wire.FORK, body)
            socket.send_fds(self.control, [message], [theirs.fileno()])
        ours.setblocking(False)
        return ours

    def read_notices(self) -> list[tuple[int, bytes]] | None:
        """Return the messages that have come, as (kind, payload); None once the nursery is gone.

        Call it when ``control`` is readable.
        """
        try:
            data = self.control.recv(65536)
        except OSError:
            data = b""
        if not data:
            return None
        self._rx += data
        notices = split_messages(self._rx)
        answers = (wire.PRELOADED, wire.PRELOADED_WITH_THREADS)
        self._num_preloading -= sum(kind in answers for kind, _ in notices)
        return notices

    def kill(self) -> None:
        """End the process; its workers end with it."""
        self.control.close()
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)

    def forget(self) -> None:
        """Let go of a nursery that belongs to the parent, in a forked child."""
        self.control.close()
        self.process.returncode = 0  # it is not this process's to wait for


def split_messages(buffer: bytearray) -> list[tuple[int, bytes]]:
    """Take the complete messages off the front of a buffer, as (kind, payload)."""
    messages = []
    position = 0
    while len(buffer) - position >= wire.HEADER.size:
        kind, length = wire.HEADER.unpack_from(buffer, position)
        end = position + wire.HEADER.size + length
        if end > len(buffer):
            break
        messages.append((kind, bytes(buffer[position + wire.HEADER.size : end])))
        position = end
    del buffer[:position]
    return messages


def kill_group(pid: int) -> None:
    """Kill a worker and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """Return in words how a process ended; negative codes are signals."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
