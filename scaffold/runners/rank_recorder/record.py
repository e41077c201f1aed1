"""The record of one process: lines appended to files, so that one who is killed leaves them.

``<pid>.head.jsonl`` holds what is rare (the process, groups, its end), ``<pid>.calls.0.jsonl`` and
``.1`` hold calls in turns: when one is full the other one is restarted, so a record stays small.
"""

import contextlib
import errno
import faulthandler
import fcntl
import itertools
import json
import os
import resource
import signal
import socket
import sys
import time

SEGMENT_BYTES = 4_000_000
_MOST_NUMBERS = 4096
_NUMBERS = 32
"""So many of the highest numbers of files are the recorder's, below the limit of the process."""

FORMAT = 1

# A real-time signal: programs and schedulers use the two that are for users.
_STACKS = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else getattr(signal, "SIGUSR2", None)

_folder = ""
_current = None


class Record:
    """The record of this process; one process makes one."""

    def __init__(self, folder):
        self.pid = os.getpid()
        self.numbers = itertools.count(1)
        self._stem = os.path.join(folder, str(self.pid))
        self._head = _File(f"{self._stem}.head.jsonl")
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
            # The original one has the options of Python too, such as `-m`.
            argv=getattr(sys, "orig_argv", sys.argv),
            python=sys.version.split()[0],
            env={name: value for name, value in os.environ.items() if name in _NAMED},
            signal=self.stacks_signal,
        )

    def head(self, **fields):
        """Append a row of what is rare."""
        fields["t"] = time.time()
        self._head.write(_line(fields))

    def call(self, fields):
        """Append a step of a call."""
        fields["t"] = time.time()
        self._append_call(_line(fields))

    def step(self, kind, number):
        """Append a step without fields, of which a call has three: a format is faster than JSON."""
        self._append_call(b'{"e":"%b","i":%d,"t":%.6f}\n' % (kind.encode(), number, time.time()))

    def _append_call(self, line):
        if self._size + len(line) > SEGMENT_BYTES:
            self._turn()
        self._size += len(line)
        self._calls.write(line)

    def row(self, name, /, **fields):
        """Append a row to a file of its own, such as that of the checksums."""
        if name not in self._others:
            self._others[name] = _File(f"{self._stem}.{name}.jsonl")
        self._others[name].write(_line(fields))

    def _turn(self):
        if self._calls is not None:
            self._calls.close()
        # Two files in turn bound the disk that a long job takes; the last calls are what counts.
        self._segment = 1 - self._segment
        self._size = 0
        self._calls = _File(f"{self._stem}.calls.{self._segment}.jsonl", os.O_TRUNC)

    def _register_stacks(self):
        """Let a signal write the stack of each thread to a file, also while C code runs."""
        if not hasattr(faulthandler, "register"):
            return None
        # An ending interpreter puts back what was there: by default the signal would kill the rank.
        if signal.getsignal(_STACKS) == signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # threads other than the main one may not
                signal.signal(_STACKS, signal.SIG_IGN)
        faulthandler.register(_STACKS, file=_open(f"{self._stem}.stacks.txt"), all_threads=True)
        # Launchers end the other ranks once one has died; a handler of the program replaces this.
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            ends = _open(f"{self._stem}.end.txt")
            faulthandler.register(signal.SIGTERM, file=ends, all_threads=True, chain=True)
        if not faulthandler.is_enabled():
            faulthandler.enable(file=_open(f"{self._stem}.crash.txt"), all_threads=False)
        return int(_STACKS)


_NAMED = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
}


def start(folder):
    """Set where records go; the first row begins a file."""
    global _folder
    _folder = folder
    # A forked child has a pid, and so a record, of its own.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)


def current():
    """Return the record of this process."""
    global _current
    if _current is None:
        _current = Record(_folder)
    return _current


def known():
    """Return the record of this process, or None where it has none."""
    return _current


def folder():
    """Return where records go."""
    return _folder


def fault(where, error):
    """Record that the recorder itself failed; the program goes on."""
    with contextlib.suppress(Exception):  # nothing more can be done here
        current().head(kind="fault", where=where, error=repr(error))


def _forget():
    global _current
    _current = None
    if hasattr(faulthandler, "unregister"):
        for number in (signal.SIGTERM, _STACKS):  # they would write into its parent's files
            faulthandler.unregister(number)


class _File:
    """A file that lines are appended to, also where the program closes whatever is open."""

    def __init__(self, path, extra=0):
        self._path = path
        self._number = _open(path, extra)

    def write(self, line):
        """Append a line; a full disk costs the record, not the job."""
        with contextlib.suppress(OSError):
            try:
                # Without a buffer, which a killed process would take with it.
                os.write(self._number, line)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                # Daemons close every number that they find open, this one too.
                self._number = _open(self._path)
                os.write(self._number, line)

    def close(self):
        """Close it, if the program has not."""
        with contextlib.suppress(OSError):
            os.close(self._number)


def _open(path, extra=0):
    """Open a file to append to, under a number that no file of the program gets.

    The system gives the lowest number that is free: where a program closes what it has not opened,
    its next file would have ours, and our lines.
    """
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | extra, 0o644)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = min(most, _MOST_NUMBERS) if most > 0 else _MOST_NUMBERS
    with contextlib.suppress(OSError):  # all of them are taken: the low one it is
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, most - _NUMBERS)
        os.close(number)
        return high
    return number


def _line(fields):
    return (json.dumps(fields, separators=(",", ":"), default=repr) + "\n").encode()
