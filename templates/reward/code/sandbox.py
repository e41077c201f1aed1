"""Runs Python programs that nobody trusts, each in a process that can harm nothing but itself.

The grader starts this very file as a second interpreter, the supervisor; it forks one child for
each program, locks it in and watches it. What holds for a program:

- processes: it is one process and stays one, with few threads; it starts no other program;
- network: it makes no socket (but `socketpair`), so it reaches neither loopback nor unix sockets;
- files: it reads Python, its packages and system libraries, and writes to its scratch folder only;
- others: it cannot signal or trace anybody; its environment is empty but for harmless names;
- limits: processor time, time, memory, output, size and number of files, room in the folder;
- its end: whatever ends the grader ends the supervisor, and whatever ends that ends the program.

A filter of system calls does most of it. The files are kept by namespaces of users, mounts,
network and processes, or else by Landlock; which of them this machine allows is tried once per
process. Where neither works nothing is run, unless the caller says `allow_unsandboxed=True`: then
files and, beyond Linux on x86_64 and aarch64, everything but the limits are unprotected.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import marshal
import os
import select
import signal
import struct
import sys
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

BACKENDS = ("namespaces", "landlock")
"""What keeps the files, in the order in which it is tried."""

SCRATCH = "/sandbox"
"""Where the scratch folder stands in the file system that namespaces show to a program."""


class Limits(NamedTuple):
    """Says what a program may use; `total_s` is for all programs of one call together."""

    cpu_s: float = 4.0
    wall_s: float = 8.0
    total_s: float = 12.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20
    file_bytes: int = 8 << 20
    scratch_bytes: int = 64 << 20
    open_files: int = 64
    threads: int = 32


class Case(NamedTuple):
    """Is one run of a program: its standard input, and tests to run in it afterwards.

    Args:
        stdin: What it reads.
        tests: (kind, source) of expressions whose value is reported ("value"), statements that
            pass unless they raise ("statement") and those that have to work first ("setup").
    """

    stdin: str = ""
    tests: tuple[tuple[str, str], ...] = ()


class Outcome(NamedTuple):
    """Is how one run ended: "ok", or what went wrong; its output; what each test reported.

    `reports` holds for each test its value as Python text, and "" for a test that failed. All are
    "" unless the tests were run to the end.
    """

    end: str
    output: str
    reports: tuple[str, ...] = ()


# --- the grader's side --------------------------------------------------------------------------


def run(
    code: str,
    cases: list[Case],
    limits: Limits | None = None,
    *,
    stop_early: bool = False,
    allow_unsandboxed: bool = False,
) -> list[Outcome]:
    """Runs a program once for each case; one that was not reached has the end "time".

    Args:
        code: The program.
        cases: Its inputs.
        limits: What it may use.
        stop_early: Leave out what follows a case that does not end well.
        allow_unsandboxed: Run even where nothing can keep the program off the files.

    Raises:
        RuntimeError: This machine has no means to lock a program in, or the sandbox itself failed.
    """
    backend, reasons = find_backend()
    if not backend and not allow_unsandboxed:
        raise RuntimeError(
            f"code is not run, for nothing here can lock it in ({reasons}); allow user namespaces "
            "or Landlock, or accept the risk with allow_unsandboxed=True"
        )
    return _supervised(code, cases, limits or Limits(), backend or "none", stop_early)


@functools.cache
def find_backend() -> tuple[str, str]:
    """Returns what keeps the files here, by trying it ("" for nothing), and why not the others."""
    import tempfile

    reasons: list[str] = []
    for backend in BACKENDS:
        path = os.path.join(tempfile.gettempdir(), f"sandbox-probe-{os.urandom(8).hex()}")
        limits = Limits()._replace(cpu_s=10.0, wall_s=10.0)
        try:
            (found,) = _supervised(PROBE.format(path=path), [Case()], limits, backend, False)
        except RuntimeError as error:
            reasons.append(f"{backend}: {error}")
            continue
        if found.output == "locked in\n":
            return backend, "; ".join(reasons)
        reasons.append(f"{backend}: it does not hold ({found.end})")
        with contextlib.suppress(OSError):
            os.unlink(path)
    return "", "; ".join(reasons) or "no backend is left"


PROBE = """
import os, socket
open("inside", "w").close()
for attempt in (socket.socket, os.fork, lambda: open({path!r}, "w"), lambda: os.kill(1, 0)):
    try:
        attempt()
    except OSError:
        continue
    os._exit(1)
print("locked in")
"""


def _supervised(
    code: str, cases: list[Case], limits: Limits, backend: str, stop_early: bool
) -> list[Outcome]:
    import shutil
    import subprocess
    import tempfile

    nonce = os.urandom(16).hex()
    scratch = os.path.join(tempfile.gettempdir(), f"sandbox-{os.urandom(8).hex()}")
    roots, paths = _readable()
    plain = [tuple(each) for each in cases]
    request = (os.getpid(), code, plain, tuple(limits), backend, stop_early, nonce, scratch)
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-P", "-S", "-s", "-B", "-X", "utf8", os.path.abspath(__file__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={**env, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        data = marshal.dumps((*request, roots, paths))
        answer, errors = process.communicate(data, limits.total_s + limits.wall_s + 10)
    except subprocess.TimeoutExpired:
        raise RuntimeError("the sandbox's supervisor gave no answer") from None
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode or not answer:
        text = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise RuntimeError(text or f"the sandbox's supervisor ended with {process.returncode}")
    rows = marshal.loads(answer)
    rows += [("time", b"", b"")] * (len(cases) - len(rows))
    return [_outcome(nonce, len(case.tests), *row) for case, row in zip(cases, rows, strict=True)]


def _outcome(nonce: str, count: int, end: str, output: bytes, report: bytes) -> Outcome:
    lines = report.decode("utf-8", "replace").split("\n")
    reports = lines[1:] if lines[0] == nonce and end == "ok" else []
    # One for each test, whatever the program has made of its own process.
    reports = [*reports, *[""] * count][:count]
    return Outcome(end, output.decode("utf-8", "replace"), tuple(reports))


def reports_value(report: str, expected: Any) -> bool:
    """Tells whether the value that a test reported as Python text is the expected one."""
    import ast

    try:
        return len(report) < 100_000 and bool(ast.literal_eval(report) == expected)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
        return False


def _readable() -> tuple[list[str], list[str]]:
    """Returns what a program may read, and the part of this process's module path inside it."""
    import sysconfig

    known = sysconfig.get_paths()
    wanted = ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/share", "/lib"]
    wanted += ["/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime"]
    wanted += ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
    wanted += [os.path.dirname(known["stdlib"]), known["purelib"], known["platlib"]]
    roots: list[str] = []
    for path in sorted({os.path.abspath(path) for path in wanted if os.path.exists(path)}):
        if path != "/" and not path.startswith(tuple(f"{root}/" for root in roots)):
            roots.append(path)
    inside = tuple(f"{root}/" for root in roots)
    return roots, [path for path in sys.path if f"{path}/".startswith(inside)]


# --- the supervisor's side ----------------------------------------------------------------------


class _Child(NamedTuple):
    """Is a program under way: its process, as numbered here and in /proc, and what it writes to."""

    pid: int
    number: str
    output: int
    report: int


def main() -> None:
    """Is the supervisor's life; the call returns in the processes of programs only."""
    # What the grader ignores or blocks is inherited.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    request = marshal.loads(_read_all(0))
    grader, code, cases, limits, backend, stop_early, nonce, scratch, roots, paths = request
    del request
    limits = Limits(*limits)
    _die_with_parent(signal.SIGTERM)
    if os.getppid() != grader:
        os._exit(1)
    own_pids = _enter_namespaces() if backend == "namespaces" else None
    os.mkdir(scratch, 0o700)
    child: list[int] = []

    def end(*_: Any) -> NoReturn:
        for pid in child:
            _kill(pid)
        with contextlib.suppress(OSError):
            _clear(scratch)
            os.rmdir(scratch)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    stop_at = time.monotonic() + limits.total_s
    rows: list[tuple[str, bytes, bytes]] = []
    for stdin, tests in cases:
        left = stop_at - time.monotonic()
        if left <= 0 or (stop_early and rows and rows[-1][0] != "ok"):
            break
        inputs = [_file(scratch, stdin.encode("utf-8", "replace"))]
        inputs += [_file(scratch, marshal.dumps((nonce, tests)))] if tests else []
        started = _start(backend, own_pids, inputs, scratch, limits, roots)
        if started is None:
            del cases, tests, nonce
            return _become(code, paths, len(inputs) > 1)
        child[:] = [started.pid]
        rows.append(_watch(started, limits, min(left, limits.wall_s), scratch))
        child.clear()
        _clear(scratch)
    os.rmdir(scratch)
    _write_all(1, marshal.dumps(rows))
    os._exit(0)


def _start(
    backend: str,
    own_pids: int | None,
    inputs: list[int],
    scratch: str,
    limits: Limits,
    roots: list[str],
) -> _Child | None:
    """Forks a locked-in child; returns None in it.

    Raises:
        OSError: Something that is needed to lock it in does not work here.
    """
    if own_pids is not None:
        _call("unshare", NEWPID)  # of the next child; with it all that it may have left ends
    output, output_w = os.pipe()
    report, report_w = os.pipe()
    state, state_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            number = os.readlink("/proc/self") if sys.platform == "linux" else str(os.getpid())
            _die_with_parent(signal.SIGKILL)
            os.setsid()
            null = os.open("/dev/null", os.O_WRONLY)
            _place([inputs[0], output_w, null, state_w, report_w, *inputs[1:]])
            _lock_in(backend, scratch, limits, roots)
        except BaseException as error:
            _write_all(3, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        # Fails if the supervisor ended before its end could be seen.
        os.write(3, f"ready {number}".encode())
        os.close(3)
        return None
    if own_pids is not None:
        _call("setns", own_pids, NEWPID)
    for fd in (output_w, report_w, state_w, *inputs):
        os.close(fd)
    said = _read_all(state).decode()
    os.close(state)
    if not said.startswith("ready "):
        _kill(pid)
        os.rmdir(scratch)
        sys.exit(said or "a program's process ended before it began")
    return _Child(pid, said.removeprefix("ready "), output, report)


def _watch(child: _Child, limits: Limits, wall_s: float, scratch: str) -> tuple[str, bytes, bytes]:
    """Collects what a program writes until it ends, or has to."""
    data = {child.output: bytearray(), child.report: bytearray()}
    poller = select.poll()
    for fd in data:
        os.set_blocking(fd, False)
        poller.register(fd, select.POLLIN)
    watched = _pidfd(child.pid)
    if watched is not None:
        poller.register(watched, select.POLLIN)
    stop_at = time.monotonic() + wall_s
    reason, status, cpu_s = "", None, 0.0
    while status is None:
        for fd, _ in poller.poll(20 if watched is not None else 2):
            if fd in data and not _read_some(fd, data[fd]):
                poller.unregister(fd)
        reason = _excess(child.number, data, limits, stop_at, scratch)
        if reason:
            _kill(child.pid, wait=False)
        pid, found, usage = os.wait4(child.pid, 0 if reason else os.WNOHANG)
        if pid:
            status, cpu_s = os.waitstatus_to_exitcode(found), usage.ru_utime + usage.ru_stime
    _kill(child.pid, wait=False)  # what it may have left where nothing locks programs in
    for fd in data:
        while len(data[fd]) <= limits.output_bytes and _read_some(fd, data[fd]):
            pass
        os.close(fd)
    if watched is not None:
        os.close(watched)
    if not reason:
        reason = "time" if cpu_s > limits.cpu_s else _excess("", data, limits, stop_at, "")
    end = reason or ("ok" if status == 0 else f"status {status}")
    return end, bytes(data[child.output]), bytes(data[child.report])


def _excess(
    number: str, data: dict[int, bytearray], limits: Limits, stop_at: float, scratch: str
) -> str:
    """Returns what a program has too much of, if anything."""
    if any(len(part) > limits.output_bytes for part in data.values()):
        return "output"
    if number and time.monotonic() > stop_at:
        return "time"
    with contextlib.suppress(OSError):
        if number and len(os.listdir(f"/proc/{number}/task")) > limits.threads:
            return "threads"
    with contextlib.suppress(OSError):
        found = os.scandir(scratch) if scratch else ()
        sizes = (entry.stat(follow_symlinks=False).st_size for entry in found)
        if sum(4096 + size for size in sizes) > limits.scratch_bytes:  # an empty one is one too
            return "scratch"
    return ""


def _pidfd(pid: int) -> int | None:
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


def _kill(pid: int, wait: bool = True) -> None:
    """Ends a process and its group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    if wait:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _clear(scratch: str) -> None:
    """Empties the scratch folder; only where nothing locked the program in it holds folders."""
    for entry in list(os.scandir(scratch)):
        try:
            os.unlink(entry.path)
        except OSError:
            import shutil

            shutil.rmtree(entry.path, ignore_errors=True)


def _file(scratch: str, data: bytes) -> int:
    """Returns a file without a name that holds the data."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("input")
    else:
        fd = os.open(f"{scratch}/input", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(f"{scratch}/input")
    _write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read_all(fd: int) -> bytes:
    data = bytearray()
    while _read_some(fd, data):
        pass
    return bytes(data)


def _read_some(fd: int, data: bytearray) -> bool:
    """Reads a piece; False at the end, and where nothing is there yet."""
    try:
        part = os.read(fd, 1 << 16)
    except BlockingIOError:
        return False
    data += part
    return bool(part)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


# --- locking in ---------------------------------------------------------------------------------

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
CLONE_THREAD = 0x10000
NOBODY = 65534
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine to its number in the kernel's audit interface and its column in CALLS."""

CALLS = """
read 0 63; write 1 64; close 3 57; stat 4 -; fstat 5 80; lstat 6 -; poll 7 -
lseek 8 62; mmap 9 222; mprotect 10 226; munmap 11 215; brk 12 214; rt_sigaction 13 134
rt_sigprocmask 14 135; rt_sigreturn 15 139; pread64 17 67; pwrite64 18 68; readv 19 65
writev 20 66; access 21 -; pipe 22 -; select 23 -; sched_yield 24 124; mremap 25 216
msync 26 227; mincore 27 232; madvise 28 233; dup 32 23; dup2 33 -; pause 34 -; nanosleep 35 101
getitimer 36 102; alarm 37 -; setitimer 38 103; getpid 39 172; sendfile 40 71; recvfrom 45 207
socketpair 53 199; exit 60 93; uname 63 160; flock 73 32; fsync 74 82; fdatasync 75 83
ftruncate 77 46; getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50
rename 82 -; mkdir 83 -; rmdir 84 -; creat 85 -; link 86 -; unlink 87 -; symlink 88 -; readlink 89 -
umask 95 166; gettimeofday 96 169; getrlimit 97 163; getrusage 98 165; sysinfo 99 179
times 100 153; getuid 102 174; getgid 104 176; geteuid 107 175; getegid 108 177; getppid 110 173
getresuid 118 148; getresgid 120 150; rt_sigpending 127 136; rt_sigtimedwait 128 137
rt_sigsuspend 130 133; sigaltstack 131 132; statfs 137 43; fstatfs 138 44; arch_prctl 158 -
setrlimit 160 164; gettid 186 178; time 201 -; futex 202 98; sched_getaffinity 204 123
epoll_create 213 -; set_tid_address 218 96; restart_syscall 219 128; fadvise64 221 223
clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115; exit_group 231 94
epoll_wait 232 -; epoll_ctl 233 21; mkdirat 258 34; newfstatat 262 79
unlinkat 263 35; renameat 264 38; linkat 265 37; symlinkat 266 36; readlinkat 267 78
faccessat 269 48; pselect6 270 72; ppoll 271 73; set_robust_list 273 99; epoll_pwait 281 22
eventfd 284 -; fallocate 285 47; eventfd2 290 19; epoll_create1 291 20; dup3 292 24; pipe2 293 59
preadv 295 69; pwritev 296 70; getcpu 309 168; renameat2 316 276; getrandom 318 278
membarrier 324 283; copy_file_range 326 285; statx 332 291; rseq 334 293; close_range 436 436
faccessat2 439 439; epoll_pwait2 441 441
"""
"""The system calls that are allowed whatever their arguments: name, x86_64, aarch64."""

CHECKED_CALLS = """
ioctl 16 29 1 0x5401 0x5413 0x541b 0x5421 0x5450 0x5451; prlimit64 302 261 0 0
fcntl 72 25 1 0 1 2 3 4 5 6 7 36 37 38 1030 1031 1032; sendto 44 206 5 0
"""
"""Calls that are allowed for some values of one argument: its index, then the values.

The rest of ioctl and fcntl could have signals sent to others, prlimit64 set others' limits, and
sendto reach others' unix sockets by their address.
"""

OPEN_CALLS = "open 2 - 1; openat 257 56 2"
"""Calls that open files, and the argument that says how: to read, to write, or both.

Landlock lets what is opened for neither (access mode 3) pass, and before its third version does
not look at O_TRUNC, which empties a file that is opened to be read as well.
"""


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes | None) -> int:
    """Calls a function of the C library.

    Raises:
        OSError: It failed.
    """
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    found = getattr(_libc(), name)(*given)
    if found == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return int(found)


def _die_with_parent(number: int) -> None:
    if sys.platform == "linux":
        _call("prctl", PR_SET_PDEATHSIG, number)


def _place(fds: list[int]) -> None:
    """Makes the descriptors 0, 1, 2 ... and closes all others."""
    high = [os.dup2(fd, 100 + place) for place, fd in enumerate(fds)]
    for place, fd in enumerate(high):
        os.dup2(fd, place)
    os.closerange(len(fds), 200)


def _lock_in(backend: str, scratch: str, limits: Limits, roots: list[str]) -> None:
    if backend == "namespaces":
        _change_root(roots, limits)
        scratch = SCRATCH
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch)
    _set_limits(limits)
    unprotected = contextlib.suppress(AttributeError, KeyError, OSError)
    with unprotected if backend == "none" else contextlib.nullcontext():
        _call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))
        _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if backend == "landlock":
            _keep_files(scratch, roots)
        _filter_calls()


def _set_limits(limits: Limits) -> None:
    import resource

    cpu_s = int(limits.cpu_s) + 1
    wanted = {"CPU": cpu_s, "AS": limits.memory_bytes, "FSIZE": limits.file_bytes, "CORE": 0}
    for name, value in (*wanted.items(), ("NOFILE", limits.open_files)):
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):  # not every system has each of them
            resource.setrlimit(number, (value, value))
    # A program reads the error instead of dying of it.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _enter_namespaces() -> int:
    """Continues in a process of new namespaces; returns that of its process numbers."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", NEWUSER | NEWNET | NEWIPC | NEWPID)
    rows = {"setgroups": "deny", "uid_map": f"{NOBODY} {uid} 1", "gid_map": f"{NOBODY} {gid} 1"}
    for name, text in rows.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    _die_with_parent(signal.SIGTERM)  # changing the user had the kernel forget it
    pid = os.fork()
    if pid:
        os._exit(abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    _die_with_parent(signal.SIGTERM)
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def _change_root(roots: list[str], limits: Limits) -> None:
    """Gives this process a file system of its own: what it may read, and the scratch folder."""
    private, bind, recursive, detach = 1 << 18, 1 << 12, 1 << 14, 2
    safe = 2 | 4 | 8  # no set-uid, no devices, no programs
    _call("unshare", NEWNS)
    _call("mount", b"none", b"/", None, private | recursive, None)
    # It has to stand on a folder that exists everywhere and of which nothing is needed.
    base = "/proc"
    _call("mount", b"tmpfs", base.encode(), b"tmpfs", safe, b"size=1m,mode=755")
    for path in roots:
        place = base + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), place)
            continue
        if os.path.isdir(path):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        _call("mount", path.encode(), place.encode(), None, bind | recursive, None)
    os.mkdir(base + SCRATCH)
    read_only = struct.pack("QQQQ", 1 | 2, 0, 0, 0)
    _call("syscall", MOUNT_SETATTR, -100, base.encode(), 0x8000, read_only, len(read_only))
    options = f"size={limits.scratch_bytes},nr_inodes=1000,mode=700".encode()
    _call("mount", b"tmpfs", (base + SCRATCH).encode(), b"tmpfs", safe, options)
    os.chdir(base)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", detach)


def _keep_files(scratch: str, roots: list[str]) -> None:
    """Has Landlock refuse all files but what may be read, and the scratch folder, which is flat."""
    execute, write, read, read_folder, remove, make, truncate = 1, 2, 4, 8, 32, 256, 1 << 14
    abi = _call("syscall", LANDLOCK_CREATE, None, 0, 1)
    known = (1 << (13, 14, 15)[min(abi, 3) - 1]) - 1
    attribute = struct.pack("Q", known)
    ruleset = _call("syscall", LANDLOCK_CREATE, attribute, len(attribute), 0)
    rules = dict.fromkeys(roots, execute | read | read_folder)
    rules["/dev/null"] = rules["/dev/zero"] = read | write
    rules[scratch] = read | write | read_folder | remove | make | truncate
    for path, rights in rules.items():
        if not os.path.exists(path):
            continue
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights &= known if os.path.isdir(path) else known & (execute | write | read | truncate)
        _call("syscall", LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    _call("syscall", LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _filter_calls() -> None:
    """Has the kernel refuse all system calls but those of the tables, and new processes."""
    program = _filter_program(os.uname().machine)
    text = b"".join(struct.pack("HBBI", *row) for row in program)
    memory = ctypes.create_string_buffer(text, len(text))
    header = struct.pack("HP", len(program), ctypes.addressof(memory))
    filter_mode = 2
    _call("prctl", PR_SET_SECCOMP, filter_mode, header, 0, 0)


def _filter_program(machine: str) -> list[tuple[int, int, int, int]]:
    """Returns the filter as rows of a classic BPF program: operation, jumps, value.

    Raises:
        KeyError: The machine's system calls are not known.
    """
    architecture, column = MACHINES[machine]
    load, equal, some_bits, keep_bits, give = 0x20, 0x15, 0x45, 0x54, 0x06
    allow, deny, no_call, kill = 0x7FFF0000, 0x50000 | 1, 0x50000 | 38, 0x80000000
    rows = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    clone = (56, 220)[column]
    rows += [(equal, 0, 4, clone), (load, 0, 0, 16), (some_bits, 0, 1, CLONE_THREAD)]
    rows += [(give, 0, 0, allow), (give, 0, 0, deny)]
    for _, *words in map(str.split, CHECKED_CALLS.strip().replace("\n", ";").split(";")):
        index, *values = [int(word, 0) for word in words[2:]]
        rows += [(equal, 0, 2 * len(values) + 2, int(words[column])), (load, 0, 0, 16 + 8 * index)]
        for value in values:
            rows += [(equal, 0, 1, value), (give, 0, 0, allow)]
        rows.append((give, 0, 0, deny))
    access_mode, truncate = 3, 0x200
    for _, *words in map(str.split, OPEN_CALLS.split(";")):
        if words[column] == "-":
            continue
        rows += [(equal, 0, 7, int(words[column])), (load, 0, 0, 16 + 8 * int(words[2]))]
        rows += [(keep_bits, 0, 0, truncate | access_mode), (equal, 2, 0, truncate)]
        rows += [(keep_bits, 0, 0, access_mode), (equal, 0, 1, access_mode)]
        rows += [(give, 0, 0, deny), (give, 0, 0, allow)]
    for _, *numbers in map(str.split, CALLS.strip().replace("\n", ";").split(";")):
        if numbers[column] != "-":
            rows += [(equal, 0, 1, int(numbers[column])), (give, 0, 0, allow)]
    # The C library takes this error of a call that it does not need for an old kernel.
    return [*rows, (give, 0, 0, no_call)]


# --- the program's side -------------------------------------------------------------------------


def _become(code: str, paths: list[str], has_tests: bool) -> None:
    """Runs the program as the main module, or as another one where tests follow."""
    sys.path += [path for path in paths if path not in sys.path]
    sys.argv = ["program.py"]
    builtins.exit = builtins.quit = sys.exit  # which -S leaves out
    trusted = (repr, eval, exec, os._exit)
    name = "program" if has_tests else "__main__"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(code, "program.py", "exec", dont_inherit=True), module.__dict__)
    if has_tests:
        _run_tests(module.__dict__, *trusted)


def _run_tests(scope: dict[str, Any], *trusted: Callable[..., Any]) -> NoReturn:
    """Runs the tests and writes their reports with the secret that came with the tests.

    This process has run the program, so none of it is proof: values are judged by the grader, who
    alone knows the right ones; a statement can be faked by a program written against this file.
    """
    show, evaluate, execute, leave = trusted
    tests_fd, report_fd = 5, 4
    nonce, tests = marshal.loads(_read_all(tests_fd))
    secret_name = f"same_{nonce}"
    scope[secret_name] = _same_value
    lines = [nonce]
    for kind, source in tests:
        line = ""
        try:
            if kind == "value":
                line = show(_plain(evaluate(source, scope)))
            else:
                execute(_compile_test(source, secret_name), scope)
                line = "True"
        except BaseException:
            if kind == "setup":
                break
        lines.append(line)
    _write_all(report_fd, "\n".join(lines).encode("utf-8", "replace"))
    leave(0)
    raise SystemExit


def _compile_test(source: str, compare: str) -> types.CodeType:
    """Compiles a statement; in ``assert a == b`` no object of the program says what it equals."""
    import ast

    tree = ast.parse(source)
    for node in ast.walk(tree):
        test = node.test if isinstance(node, ast.Assert) else None
        if isinstance(test, ast.Compare) and [type(each) for each in test.ops] == [ast.Eq]:
            function = ast.Name(compare, ast.Load())
            node.test = ast.Call(function, [test.left, *test.comparators], [])
    return compile(ast.fix_missing_locations(tree), "tests.py", "exec", dont_inherit=True)


def _same_value(one: Any, other: Any) -> bool:
    """Compares plain values as such; objects of classes of one's own only with each other."""
    plain: list[Any] = []
    for value in (one, other):
        with contextlib.suppress(TypeError):
            plain.append(_plain(value))
    return bool(plain[0] == plain[1]) if len(plain) == 2 else not plain and bool(one == other)


def _plain(value: Any) -> Any:
    """Returns a value in types that literals have, as far as it equals one: a Counter is a dict."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        value = set(value)
    for kind in (tuple, list, set):
        if isinstance(value, kind):
            return kind(_plain(each) for each in value)
    for kind in (bool, int, float, complex, str, bytes):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    raise TypeError("no plain value")


if __name__ == "__main__":
    main()
