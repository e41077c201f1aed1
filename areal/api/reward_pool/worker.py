"""The far side of the reward pool: a small process that forks workers, and the workers.

This file runs as a script in an interpreter of its own and imports nothing but the standard
library. The first process, the nursery, has one thread and runs no reward: it imports the modules
that rewards come from, so that a worker forked from it is ready in milliseconds, and it informs the
pool how each worker ended. Forking from here and never from the trainer avoids copying a process
that has threads and locks.

Wire format, both ways: one byte of kind, four bytes of length, payload.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import io
import math
import numbers
import os
import pickle
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import traceback
import types
from typing import Any, NamedTuple, NoReturn

HEADER = struct.Struct("<BI")
VALUE_BODY = struct.Struct("<d")
FUNCTION_ID = struct.Struct("<I")
WORKER_PID = struct.Struct("<I")
EXIT_NOTICE = struct.Struct("<Ii")
FORK_BODY = struct.Struct("<Q")

# Pool to worker.
LOAD, CALL = 1, 2
# Worker to pool.
HELLO, LOADED, VALUE, INVALID, ERROR, LOAD_ERROR = 10, 11, 12, 13, 14, 15
# Pool to nursery.
PRELOAD, FORK = 20, 21
# Nursery to pool.
PRELOADED, PRELOADED_WITH_THREADS, EXITED = 30, 31, 32

_PR_SET_PDEATHSIG = 1

# True in the nursery and its workers, where no further pool may start.
is_worker_process = False


class Origin(NamedTuple):
    """Where a function comes from, for a process that has not imported its module yet."""

    module: str
    file: str | None
    main_module: str | None  # what `python -m` ran, if the function is in the main program
    search_path: tuple[str, ...]


class InvalidRewardError(ValueError):
    """A reward function returned something that is no finite number."""


def to_reward(value: Any) -> float:
    """Convert what a reward function returned.

    Args:
        value: A real number, a bool, a numpy scalar or any 0-dimensional array.

    Raises:
        InvalidRewardError: It is no number, NaN or infinite.
    """
    if type(value) is not float:  # which it nearly always is
        value = _to_float(value)
    if not math.isfinite(value):
        raise InvalidRewardError(f"returned {value}; it must be a finite number")
    return value


def _to_float(value: Any) -> float:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, numbers.Real):
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise InvalidRewardError(f"returned {shown} ({type(value).__name__}); it must be a number")
    return float(value)


def frame(kind: int, payload: bytes = b"") -> bytes:
    """Return one message of the wire format."""
    return HEADER.pack(kind, len(payload)) + payload


# --- modules ----------------------------------------------------------------------------------


def import_origin(origin: Origin) -> None:
    """Import the module that a function comes from, by name or else from its file."""
    sys.path.extend(path for path in origin.search_path if path not in sys.path)
    if origin.module == "__main__":
        _import_main(origin)
        return
    if origin.module in sys.modules:
        return
    try:
        importlib.import_module(origin.module)
    except ModuleNotFoundError as error:
        # Only the module itself, or a package around it, may be missing: a missing dependency
        # is the author's to hear about.
        is_own = error.name is not None and f"{origin.module}.".startswith(f"{error.name}.")
        if not is_own or origin.file is None:
            raise
        _import_file(origin.module, origin.file)


def _import_file(name: str, file: str) -> None:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {name!r} from {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _import_main(origin: Origin) -> None:
    """Run the main program's top level under another name, as multiprocessing does."""
    if "__mp_main__" in sys.modules:
        return
    if origin.main_module is not None:
        content = runpy.run_module(origin.main_module, run_name="__mp_main__", alter_sys=True)
    else:
        assert origin.file is not None
        content = runpy.run_path(origin.file, run_name="__mp_main__")
    module = types.ModuleType("__mp_main__")
    module.__dict__.update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


# --- worker -----------------------------------------------------------------------------------


class Worker:
    """Runs reward functions that arrive over a socket, one after the other."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._stream = sock.makefile("rb", io.DEFAULT_BUFFER_SIZE * 8)
        self._functions: dict[int, Any] = {}

    def serve(self) -> None:
        """Answer until the pool hangs up."""
        pid = os.getpid()
        self._sock.sendall(frame(HELLO, WORKER_PID.pack(pid)))
        while True:
            header = self._stream.read(HEADER.size)
            if len(header) < HEADER.size:
                return
            kind, length = HEADER.unpack(header)
            payload = self._stream.read(length)
            answer = self._load(payload) if kind == LOAD else self._call(payload)
            if os.getpid() != pid:
                return  # a copy that the function forked; its answer would be taken for the next
            self._sock.sendall(answer)

    def _load(self, payload: bytes) -> bytes:
        try:
            function_id, blob, origin = pickle.loads(payload)
            import_origin(Origin(*origin))
            self._functions[function_id] = pickle.loads(blob)
        except BaseException as error:
            return frame(LOAD_ERROR, _pack_error(error))
        return frame(LOADED)

    def _call(self, payload: bytes) -> bytes:
        try:
            (function_id,) = FUNCTION_ID.unpack_from(payload)
            args, kwargs = pickle.loads(memoryview(payload)[FUNCTION_ID.size :])
            value = self._functions[function_id](*args, **kwargs)
            return frame(VALUE, VALUE_BODY.pack(to_reward(value)))
        except InvalidRewardError as error:
            return frame(INVALID, str(error).encode())
        except MemoryError as error:
            # The frames below hold what filled the memory; nothing more fits beside it.
            error.__traceback__ = None
            return frame(ERROR, _pack_error(error))
        except BaseException as error:
            return frame(ERROR, _pack_error(error))


def _pack_error(error: BaseException) -> bytes:
    """Return the exception, where it survives pickling, with its name and traceback as text."""
    text = "".join(traceback.format_exception(error))
    blob: bytes | None = None
    # SystemExit and its like would end the trainer if they were raised there.
    if isinstance(error, Exception):
        with contextlib.suppress(Exception):
            blob = pickle.dumps(error)
            pickle.loads(blob)
    name = f"{type(error).__name__}: {error}"
    try:
        return pickle.dumps((blob, name, text))
    except Exception:
        return pickle.dumps((None, type(error).__name__, text))


def _worker_main(sock: socket.socket, nursery_pid: int, max_memory_bytes: int) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)  # what a reward starts is killed with it
        die_with(nursery_pid)
        _limit_memory(max_memory_bytes)
        _reseed()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        Worker(sock).serve()
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends, also in the middle of a loop."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def _limit_memory(max_memory_bytes: int) -> None:
    """Cap what this process may allocate, and offers it to the kernel first if memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if max_memory_bytes:
        import resource

        # Data and not address space: libraries map far more than they use.
        limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (max_memory_bytes, max_memory_bytes))


def _reseed() -> None:
    """Give this worker random numbers of its own: a fork would repeat its sisters'."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


# --- nursery ----------------------------------------------------------------------------------


class Nursery:
    """Forks workers on request and reports their ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: set[int] = set()
        self._wake_r, self._wake_w = socket.socketpair()
        for sock in (self._wake_r, self._wake_w):
            sock.setblocking(False)

    def serve(self) -> None:
        """Work until the pool hangs up, then take every worker along."""
        signal.set_wakeup_fd(self._wake_w.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while True:
                readable, _, _ = select.select([self._control, self._wake_r], [], [])
                if self._wake_r in readable:
                    self._reap()
                if self._control in readable and not self._obey():
                    return
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._kill_children()

    def _obey(self) -> bool:
        header, fds, _, _ = socket.recv_fds(self._control, HEADER.size, 1)
        if not header:
            return False
        header += self._receive(HEADER.size - len(header))
        kind, length = HEADER.unpack(header)
        payload = self._receive(length)
        if kind == PRELOAD:
            self._preload(Origin(*pickle.loads(payload)))
        elif kind == FORK:
            self._fork(fds[0], FORK_BODY.unpack(payload)[0])
        return True

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._control.recv(size)
            if not part:
                raise ConnectionResetError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _preload(self, origin: Origin) -> None:
        # Whatever goes wrong here goes wrong again in a worker, where it is reported.
        with contextlib.suppress(BaseException):
            import_origin(origin)
        gc.collect()
        gc.freeze()
        is_single = threading.active_count() == 1
        self._control.sendall(frame(PRELOADED if is_single else PRELOADED_WITH_THREADS))

    def _fork(self, fd: int, max_memory_bytes: int) -> None:
        nursery_pid = os.getpid()
        sock = socket.socket(fileno=fd)
        try:
            pid = os.fork()
        except OSError as error:  # too many processes; the pool sees the worker's socket close
            print(f"cannot fork a reward worker: {error}", file=sys.stderr)
            sock.close()
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for inherited in (self._control, self._wake_r, self._wake_w):
                inherited.close()
            _worker_main(sock, nursery_pid, max_memory_bytes)
        self._children.add(pid)
        sock.close()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_r.recv(4096)
        # Only its own workers: an imported module may have children that it waits for itself.
        for child in list(self._children):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                self._children.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                self._control.sendall(frame(EXITED, EXIT_NOTICE.pack(pid, code)))

    def _kill_children(self) -> None:
        for pid in self._children:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)


def main(control_fd: int, parent_pid: int) -> NoReturn:
    """Live the nursery's whole life."""
    global is_worker_process
    is_worker_process = True
    # What rewards import must find this flag, and not a second copy of this module.
    sys.modules["areal.api.reward_pool.worker"] = sys.modules["__main__"]
    die_with(parent_pid)
    Nursery(socket.socket(fileno=control_fd)).serve()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
