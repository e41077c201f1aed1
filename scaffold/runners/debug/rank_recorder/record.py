"""The record of one process: lines appended to files, so that one who is killed leaves them.

``<pid>.head.jsonl`` holds what is rare (the process, groups, its end), ``<pid>.calls.0.jsonl`` and
``.1`` hold calls in turns: when one is full the other one is begun anew, so a record stays small.
"""

import contextlib
import faulthandler
import itertools
import json
import os
import signal
import socket
import sys
import time

SEGMENT_BYTES = 4_000_000
FORMAT = 1

_folder = ""
_current = None


class Record:
    """Is the record of this process; one process makes one."""

    def __init__(self, folder):
        self.pid = os.getpid()
        self.numbers = itertools.count(1)
        self._stem = os.path.join(folder, str(self.pid))
        self._head = _append(f"{self._stem}.head.jsonl")
        self._calls = None
        self._others = {}
        self._segment = 1
        self._size = SEGMENT_BYTES
        self.stacks_signal = self._register_stacks()
        self.head(
            kind="process",
            format=FORMAT,
            pid=self.pid,
            parent=os.getppid(),
            host=socket.gethostname(),
            argv=getattr(sys, "orig_argv", sys.argv),
            python=sys.version.split()[0],
            env={name: value for name, value in os.environ.items() if name in _NAMED},
            signal=self.stacks_signal,
        )

    def head(self, **fields):
        """Appends what is rare."""
        fields["t"] = time.time()
        _write(self._head, fields)

    def call(self, fields):
        """Appends a step of a call."""
        fields["t"] = time.time()
        self._append_call(_line(fields))

    def step(self, kind, number):
        """Appends a step that says no more than which it is; there are three of them to a call."""
        self._append_call(b'{"e":"%b","i":%d,"t":%.6f}\n' % (kind.encode(), number, time.time()))

    def _append_call(self, line):
        if self._size + len(line) > SEGMENT_BYTES:
            self._turn()
        self._size += len(line)
        _write(self._calls, line)

    def row(self, name, /, **fields):
        """Appends a row to a file of its own, such as that of the checksums."""
        if name not in self._others:
            self._others[name] = _append(f"{self._stem}.{name}.jsonl")
        _write(self._others[name], fields)

    def _turn(self):
        if self._calls is not None:
            os.close(self._calls)
        self._segment = 1 - self._segment
        self._size = 0
        self._calls = _append(f"{self._stem}.calls.{self._segment}.jsonl", os.O_TRUNC)

    def _register_stacks(self):
        """Lets a signal write the stack of each thread to a file; C code does not keep it off."""
        if not hasattr(faulthandler, "register"):
            return None
        # A real-time signal: programs and schedulers use the two that are for users.
        number = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
        self._stacks = open(f"{self._stem}.stacks.txt", "ab", buffering=0)  # noqa: SIM115 - open as long as the rank is
        faulthandler.register(number, file=self._stacks, all_threads=True)
        if not faulthandler.is_enabled():
            self._crash = open(f"{self._stem}.crash.txt", "ab", buffering=0)  # noqa: SIM115 - open as long as the rank is
            faulthandler.enable(file=self._crash, all_threads=False)
        return int(number)


_NAMED = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
}


def start(folder):
    """Sets where records go; a file is begun when there is something to say."""
    global _folder
    _folder = folder
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)


def current():
    """Returns the record of this process."""
    global _current
    if _current is None:
        _current = Record(_folder)
    return _current


def known():
    """Returns the record of this process, or None where it has none."""
    return _current


def folder():
    """Returns where records go."""
    return _folder


def fault(where, error):
    """Records that the recorder itself failed; the program goes on."""
    with contextlib.suppress(Exception):  # nothing more can be done here
        current().head(kind="fault", where=where, error=repr(error))


def _forget():
    global _current
    _current = None


def _append(path, extra=0):
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | extra | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, 0o644)


def _write(file, line):
    # A full disk costs the record, not the job.
    with contextlib.suppress(OSError):
        os.write(file, line if isinstance(line, bytes) else _line(line))


def _line(fields):
    return (json.dumps(fields, separators=(",", ":"), default=repr) + "\n").encode()
