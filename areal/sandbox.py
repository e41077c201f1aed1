"""Run Python programs that nobody trusts, each in a process that can harm nothing but itself.

The grader starts this very file as a second interpreter, the supervisor; it forks one child for
each program, locks it in and watches it. Tests run in a second child, the judge, which never runs
the program: it asks the program's process for calls over a pipe and gets plain values. So nothing
that a program does to its own process passes a test. What holds for a program:

- processes: it is one process and stays one, with few threads; it starts no other program;
- network: it makes no socket (but `socketpair`), so it reaches neither loopback nor unix sockets;
- files: it reads Python, its packages and system libraries, and writes to its scratch folder only;
- others: it cannot signal or trace anybody; its environment is empty but for harmless names;
- limits: processor time, time, memory, output, size and number of files, room in the folder;
- its end: whatever ends the grader ends the supervisor, and whatever ends that ends the program.

A filter of system calls does most of it. The files are kept by namespaces of users, mounts,
network and processes, or else by Landlock; which of them this machine allows is tried once per
process. Where neither works nothing is run, unless the caller passes `allow_unsandboxed=True`: then
files and, beyond Linux on x86_64 and aarch64, everything but the limits are unprotected.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import json
import marshal
import os
import select
import signal
import struct
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

BACKENDS = ("namespaces", "landlock")
"""What keeps the files, in the order in which it is tried."""

SCRATCH = "/sandbox"
"""Where the scratch folder is in the file system that namespaces show to a program."""


class Limits(NamedTuple):
    """Bound what a program may use; totals are for all programs of one call together.

    Who uses up the processor time has failed. Where the time on the clock is up before that, the
    machine is busy or the program sleeps, nobody can tell which, and `run` raises. The totals stay
    below the 15 s that a reward call has, whose end would be counted as a reward of 0.0.
    """

    cpu_s: float = 4.0
    wall_s: float = 8.0
    total_cpu_s: float = 10.0
    total_wall_s: float = 12.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20
    file_bytes: int = 8 << 20
    scratch_bytes: int = 64 << 20
    open_files: int = 64
    threads: int = 32


class Case(NamedTuple):
    """Describe one run of a program: its standard input, and tests to run beside it afterwards.

    Args:
        stdin: What it reads.
        tests: (kind, source) of statements that pass unless they raise ("test") and of those that
            have to work first ("setup"). Names that they do not define are the program's.
    """

    stdin: str = ""
    tests: tuple[tuple[str, str], ...] = ()


class Outcome(NamedTuple):
    """Hold how one run ended: "ok", or what went wrong; its output; which tests passed."""

    end: str
    output: str
    passed: tuple[bool, ...] = ()


# --- the grader's side --------------------------------------------------------------------------


def run(
    code: str,
    cases: list[Case],
    limits: Limits | None = None,
    *,
    stop_early: bool = False,
    allow_unsandboxed: bool = False,
) -> list[Outcome]:
    """Run a program once for each case; one that no processor time was left for ends in "time".

    Args:
        code: The program.
        cases: Its inputs.
        limits: What it may use.
        stop_early: Leave out what follows a case that does not end well.
        allow_unsandboxed: Run even where nothing can keep the program off the files.

    Raises:
        RuntimeError: This machine has no means to lock a program in, or the time on the clock was
            up before the processor time was, or the sandbox itself failed.
        ValueError: A test gives the program what cannot leave the test's process.
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
    """Return what keeps the files here, by trying it ("" for nothing), and why not the others."""
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

    scratch = os.path.join(tempfile.gettempdir(), f"sandbox-{os.urandom(8).hex()}")
    roots, paths = _readable()
    # Tests pass through the supervisor as descriptors only: its memory is copied into programs.
    place = tempfile.gettempdir()
    files = [_file(place, marshal.dumps(each.tests)) if each.tests else -1 for each in cases]
    plain = [(each.stdin, fd) for each, fd in zip(cases, files, strict=True)]
    request = (os.getpid(), code, plain, tuple(limits), backend, stop_early, scratch)
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-P", "-S", "-s", "-B", "-X", "utf8", os.path.abspath(__file__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={**env, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
        pass_fds=[fd for fd in files if fd >= 0],
    )
    for fd in files:
        if fd >= 0:
            os.close(fd)
    try:
        data = marshal.dumps((*request, roots, paths))
        answer, errors = process.communicate(data, limits.total_wall_s + 2)
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
    return [_outcome(case.tests, *row) for case, row in zip(cases, rows, strict=True)]


def _outcome(tests: Sequence[Any], end: str, output: bytes, report: bytes) -> Outcome:
    if end == "stalled":
        raise RuntimeError(
            "the program's time was up before it had used its processor time: this machine is too "
            "busy, or the program sleeps; try again"
        )
    verdicts = report.decode("utf-8", "replace") if end == "ok" else ""
    if verdicts.startswith("unusable "):
        raise ValueError(f"the tests {verdicts.removeprefix('unusable ')}")
    passed = [verdict == "1" for verdict in verdicts.ljust(len(tests), "0")[: len(tests)]]
    return Outcome(end, output.decode("utf-8", "replace"), tuple(passed))


def _readable() -> tuple[list[str], list[str]]:
    """Return what a program may read, and the part of this process's module path inside it."""
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


# --- completions and rows -----------------------------------------------------------------------

LANGUAGES = {"", "python", "python3", "py"}


def extract_code(completion: str) -> str | None:
    """Find a completion's program: its last fenced block of Python, or else of no language."""
    programs: dict[bool, str] = {}
    lines = iter(completion.splitlines(keepends=True))
    for opening in lines:
        info = opening.strip().lstrip("`")
        ticks = len(opening.strip()) - len(info)
        if ticks < 3 or "`" in info:
            continue
        language = info.split()[0].lower() if info else ""
        block: list[str] = []
        for line in lines:
            if len(line.strip()) >= ticks and not line.strip().strip("`"):
                if language in LANGUAGES:
                    programs[bool(language)] = textwrap.dedent("".join(block))
                break
            block.append(line)
    return programs.get(True, programs.get(False))


def run_cases(
    code: str, cases: list[tuple[str, str]], limits: Limits | None = None, **options: bool
) -> list[bool]:
    """Run a program once for each input, and return which outputs are as expected.

    Args:
        code: The program.
        cases: What it reads, and what it must print; see `read_cases`.
        limits: What it may use.
        **options: Those of `run`, which also documents what is raised.
    """
    runs = run(code, [Case(text) for text, _ in cases], limits, **options)
    return [
        done.end == "ok" and _lines(done.output) == _lines(expected)
        for done, (_, expected) in zip(runs, cases, strict=True)
    ]


def run_tests(
    code: str, tests: list[tuple[str, str]], limits: Limits | None = None, **options: bool
) -> list[bool]:
    """Run tests beside a program, and return which of them pass.

    Args:
        code: The program.
        tests: What `read_tests` gives; what only prepares a test is not in the result.
        limits: What it may use.
        **options: Those of `run`, which also documents what is raised.
    """
    (done,) = run(code, [Case("", tuple(tests))], limits, **options)
    return [ok for (kind, _), ok in zip(tests, done.passed, strict=True) if kind == "test"]


def read_cases(test_cases: Any) -> list[tuple[str, str]]:
    """Return the inputs of a row's tests, each with the output that it must give.

    Args:
        test_cases: A list of {"input": ..., "output": ...}, or its JSON.

    Raises:
        ValueError: It is something else, or empty.
    """
    try:
        rows = json.loads(test_cases) if isinstance(test_cases, str) else test_cases
        pairs = [(row["input"], row["output"]) for row in rows]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        problem = f"each of test_cases must have an input and an output: {error!r}"
        raise ValueError(problem) from error
    if not pairs:
        raise ValueError("the row's test_cases are empty")
    wrong = [each for pair in pairs for each in pair if not isinstance(each, str | int | float)]
    if wrong:
        raise ValueError(f"inputs and outputs of test_cases must be text, not {wrong[0]!r:.80}")
    return [(str(given), str(expected)) for given, expected in pairs]


def _lines(text: str) -> list[str]:
    """Return the lines of an output, blanks at the end of lines and of the text aside."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def read_tests(
    test_code: Any, entry_point: str | None = None, test_setup: str = ""
) -> list[tuple[str, str]]:
    """Take a row's tests apart: each assert or block with asserts at the top level is one.

    Where there is none, each call is: those of functions that hold the asserts.

    Args:
        test_code: Python source, or a list of it.
        entry_point: The function that `check` of HumanEval's form is called with.
        test_setup: Python source of what the tests call beside the program, such as the prompt of
            HumanEval; what it has of the entry point's name is left out.

    Returns:
        What is run beside the program, as (kind, source).

    Raises:
        ValueError: It is no Python, holds no test, or calls what only the program defines beside
            the entry point: a program could answer for it.
    """
    import ast

    try:
        source = test_code if isinstance(test_code, str) else "\n".join(test_code)
        if entry_point and "def check(" in source:
            source += f"\ncheck({entry_point})"
        statements = ast.parse(source).body
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"the row's test_code is not valid Python: {error}") from error
    try:
        setup = _setup_of(test_setup, entry_point)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"the row's test_setup is not valid Python: {error}") from error
    if entry_point:
        text = "\n".join(map(ast.unparse, [*setup, *statements]))
        known = {each.id for each in ast.walk(ast.parse(entry_point)) if isinstance(each, ast.Name)}
        if others := sorted(_free_names(text) - known):
            raise ValueError(
                f"the row's test_code uses {others[0]}, which the program would answer for; give "
                f"its source as test_setup (for HumanEval, the prompt)"
            )
    # A runner of unittest catches what fails; each method of a case is a test by itself.
    statements = [node for node in statements if not _runs_cases(_names_of(node))]
    for case in [n for n in statements if isinstance(n, ast.ClassDef) and _is_case(n)]:
        methods = (n.name for n in case.body if isinstance(n, ast.FunctionDef))
        calls = [f"{case.name}({name!r}).debug()" for name in methods if name.startswith("test")]
        statements += ast.parse("\n".join(calls)).body
    blocks = [
        node
        for node in statements
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    counted = [n for n in blocks if any(isinstance(each, ast.Assert) for each in ast.walk(n))]
    calls = [n for n in blocks if isinstance(getattr(n, "value", None), ast.Call)]
    counted = [n for n in calls if "debug" in _names_of(n)] + counted or calls
    if not counted:
        raise ValueError("the row's test_code has no assert and no call")
    statements = [*setup, *statements]
    return [("test" if node in counted else "setup", ast.unparse(node)) for node in statements]


def _setup_of(source: str, entry_point: str | None) -> list[Any]:
    """Return the statements of a setup, but for what the program has to define."""
    import ast

    wanted = (entry_point or "").partition("(")[0]
    return [
        node
        for node in ast.parse(source).body
        if getattr(node, "name", None) != wanted and not isinstance(node, ast.Expr)
    ]


def _free_names(source: str) -> set[str]:
    """Return the names that a module takes from elsewhere, but for built-in ones and modules."""
    import symtable

    top = symtable.symtable(source, "tests", "exec")
    bound = {each.get_name() for each in top.get_symbols() if each.is_assigned()}
    bound |= {each.get_name() for each in top.get_symbols() if each.is_imported()}
    free: set[str] = set()
    waiting = [top]
    while waiting:
        scope = waiting.pop()
        used = (each for each in scope.get_symbols() if each.is_referenced())
        free |= {each.get_name() for each in used if scope is top or each.is_global()}
        waiting += scope.get_children()
    return {name for name in free - bound - set(sys.stdlib_module_names) if not _is_given(name)}


def _is_given(name: str) -> bool:
    return hasattr(builtins, name) or name.startswith("__")


def _names_of(node: Any) -> set[str]:
    """Return the names and attributes that a statement outside of definitions uses."""
    import ast

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    nodes = list(ast.walk(node))
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    return names | {each.attr for each in nodes if isinstance(each, ast.Attribute)}


def _runs_cases(names: set[str]) -> bool:
    return "TextTestRunner" in names or {"unittest", "main"} <= names


def _is_case(node: Any) -> bool:
    import ast

    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


# --- the supervisor's side ----------------------------------------------------------------------


class _Child(NamedTuple):
    """Hold a program under way: its process, as numbered here and in /proc, and its outputs."""

    pid: int
    number: str
    output: int
    report: int


def main() -> None:
    """Live as the supervisor; the call returns in the processes of programs only."""
    # What the grader ignores or blocks is inherited.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    request = marshal.loads(_read_all(0))
    grader, code, cases, limits, backend, stop_early, scratch, roots, paths = request
    del request
    limits = Limits(*limits)
    _die_with_parent(signal.SIGTERM)
    if os.getppid() != grader:
        os._exit(1)
    own_pids = _enter_namespaces() if backend == "namespaces" else None
    if sys.platform == "linux":  # nobody opens what the judge has open, by its folder in /proc
        _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Low numbers, as a program's process closes those.
    cases = [(stdin, os.dup(fd) if fd >= 0 else -1) for stdin, fd in cases]
    places = [os.path.join(scratch, name) for name in ("program", "judge")]
    for path in (scratch, *places):
        os.mkdir(path, 0o700)
    children: list[_Child] = []

    def end(*_: Any) -> NoReturn:
        for child in children:
            _kill(child.pid)
        with contextlib.suppress(OSError):
            _clear(scratch)
            os.rmdir(scratch)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    started, cpu_left_s = time.monotonic(), limits.total_cpu_s
    rows: list[tuple[str, bytes, bytes]] = []
    for stdin, tests_fd in cases:
        if cpu_left_s <= 0 or (stop_early and rows and rows[-1][0] != "ok"):
            break
        wall_left_s = limits.total_wall_s - (time.monotonic() - started)
        allowed = limits._replace(
            cpu_s=min(limits.cpu_s, cpu_left_s), wall_s=min(limits.wall_s, wall_left_s)
        )
        # Either end of a pipe that the other child has would keep it open.
        asked, ask = os.pipe() if tests_fd >= 0 else (-1, -1)
        answered, answer = os.pipe() if tests_fd >= 0 else (-1, -1)
        links = [answer, asked] if tests_fd >= 0 else []
        text = _file(scratch, stdin.encode("utf-8", "replace"))
        child = _start(backend, own_pids, [text, *links], places[0], allowed, roots)
        if child is None:
            return _become(code, paths, bool(links))
        children[:] = [child]
        if links:
            inputs = [tests_fd, ask, answered]
            judge = _start(backend, own_pids, inputs, places[1], allowed, roots, is_silent=True)
            if judge is None:
                del code
                return _judge(paths)
            children.append(judge)
        end_of_it, output, report, cpu_s = _watch(children, allowed, places[0])
        rows.append((end_of_it, output, report))
        cpu_left_s -= cpu_s
        children.clear()
        for path in places:
            _clear(path)
        if end_of_it == "stalled":
            break
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
    is_silent: bool = False,
) -> _Child | None:
    """Fork a locked-in child; return None in it, with inputs as the descriptors 0, 5, 6 ...

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
            _place(
                [inputs[0], null if is_silent else output_w, null, state_w, report_w, *inputs[1:]]
            )
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
        sys.exit(said or "a program's process ended before it began")
    return _Child(pid, said.removeprefix("ready "), output, report)


def _watch(children: list[_Child], limits: Limits, scratch: str) -> tuple[str, bytes, bytes, float]:
    """Collect what a program and its judge write until the last of them ends, or has to.

    Returns:
        How it ended, the program's output, the last child's report, and its processor time.
    """
    program, last = children[0], children[-1]
    data = {program.output: bytearray(), last.report: bytearray()}
    poller = select.poll()
    for fd in data:
        os.set_blocking(fd, False)
        poller.register(fd, select.POLLIN)
    watched = _pidfd(last.pid)
    if watched is not None:
        poller.register(watched, select.POLLIN)
    started = time.monotonic()
    reason, status, cpu_s = "", None, 0.0
    while status is None:
        for fd, _ in poller.poll(20 if watched is not None else 2):
            if fd in data and not _read_some(fd, data[fd]):
                poller.unregister(fd)
        reason = _excess([child.number for child in children], data, limits, scratch)
        if not reason and max(_cpu_s(child.pid) for child in children) > limits.cpu_s:
            reason = "time"
        elif not reason and time.monotonic() - started > limits.wall_s:
            reason = "stalled"
        if reason:
            _kill(last.pid, wait=False)
        pid, found, usage = os.wait4(last.pid, 0 if reason else os.WNOHANG)
        if pid:
            status, cpu_s = os.waitstatus_to_exitcode(found), usage.ru_utime + usage.ru_stime
    for child in children:
        _kill(child.pid, wait=False)  # and what it may have left where nothing locks it in
    if program is not last:
        # With a judge the program's own end is no news: what it no longer answers has failed.
        usage = os.wait4(program.pid, 0)[2]
        cpu_s = max(cpu_s, usage.ru_utime + usage.ru_stime)
    for fd in data:
        while len(data[fd]) <= limits.output_bytes and _read_some(fd, data[fd]):
            pass
    for fd in {fd for child in children for fd in (child.output, child.report)}:
        os.close(fd)
    if watched is not None:
        os.close(watched)
    if not reason:
        reason = "time" if cpu_s > limits.cpu_s else _excess([], data, limits, "")
    end = reason or ("ok" if status == 0 else f"status {status}")
    return end, bytes(data[program.output]), bytes(data[last.report]), cpu_s


def _cpu_s(pid: int) -> float:
    """Return the processor time of a child, 0.0 where only its end shows it."""
    with contextlib.suppress(OSError, OverflowError):
        # The number that Linux gives to the clock of a process, as clock_getcpuclockid(3) does.
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def _excess(numbers: list[str], data: dict[int, bytearray], limits: Limits, scratch: str) -> str:
    """Return what a program or its judge has too much of, if anything."""
    if any(len(part) > limits.output_bytes for part in data.values()):
        return "output"
    for number in numbers:
        with contextlib.suppress(OSError):
            if len(os.listdir(f"/proc/{number}/task")) > limits.threads:
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
    """End a process and its group."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    if wait:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _clear(scratch: str) -> None:
    """Empty the scratch folder; only where nothing locked the program in it holds folders."""
    for entry in list(os.scandir(scratch)):
        try:
            os.unlink(entry.path)
        except OSError:
            import shutil

            shutil.rmtree(entry.path, ignore_errors=True)


def _file(folder: str, data: bytes) -> int:
    """Return a file without a name that holds the data."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("input")
    else:
        path = os.path.join(folder, f"sandbox-input-{os.urandom(8).hex()}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    _write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read_all(fd: int) -> bytes:
    data = bytearray()
    while _read_some(fd, data):
        pass
    return bytes(data)


def _read_some(fd: int, data: bytearray) -> bool:
    """Read a piece; False at the end, and where nothing is there yet."""
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
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
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
"""Calls that open files, and the argument for how: to read, to write, or both.

Landlock lets what is opened for neither (access mode 3) pass, and before its third version does
not look at O_TRUNC, which empties a file that is opened to be read as well.
"""


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library.

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
    """Make the descriptors 0, 1, 2 ... and close all others."""
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
    """Continue in a process of new namespaces; return that of its process numbers."""
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
    """Give this process a file system of its own: what it may read, and the scratch folder."""
    private, bind, recursive, detach = 1 << 18, 1 << 12, 1 << 14, 2
    safe = 2 | 4 | 8  # no set-uid, no devices, no programs
    _call("unshare", NEWNS)
    _call("mount", b"none", b"/", None, private | recursive, None)
    # It has to be on a folder that exists everywhere and of which nothing is needed.
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
    """Have Landlock refuse all files but what may be read, and the flat scratch folder."""
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
    """Have the kernel refuse all system calls but those of the tables, and new processes."""
    program = _filter_program(os.uname().machine)
    text = b"".join(struct.pack("HBBI", *row) for row in program)
    memory = ctypes.create_string_buffer(text, len(text))
    header = struct.pack("HP", len(program), ctypes.addressof(memory))
    filter_mode = 2
    _call("prctl", PR_SET_SECCOMP, filter_mode, header, 0, 0)


def _filter_program(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the filter as rows of a classic BPF program: operation, jumps, value.

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


# --- values between the program and its judge ---------------------------------------------------

MESSAGE_BYTES = 16 << 20
MAX_ITEMS = 10_000  # of an iterator of the program, or one that counts would contain any number
LARGE_BITS = (
    10_000  # of an integer; Python reads 4,300 decimal digits at most, hexadecimal ones all
)
READ_FD, WRITE_FD = 6, 5  # of either side
RAW = (bool, str, float)
GROUPS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}

# Types beyond literals whose values are rebuilt from plain ones.
REBUILT: dict[tuple[str, str], Callable[[Any], Iterable[Any]]] = {
    ("collections", "deque"): lambda value: [list(value)],
    ("datetime", "date"): lambda value: value.timetuple()[:3],
    ("datetime", "datetime"): lambda value: (*value.timetuple()[:6], value.microsecond),
    ("datetime", "time"): lambda value: (value.hour, value.minute, value.second),
    ("datetime", "timedelta"): lambda value: (value.days, value.seconds, value.microseconds),
    ("decimal", "Decimal"): lambda value: [str(value)],
    ("fractions", "Fraction"): lambda value: (value.numerator, value.denominator),
}

Pack = Callable[[Any], Any]


class _Wire(NamedTuple):
    """Carries messages, each JSON after its length."""

    reads: int
    writes: int

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        if len(data) > MESSAGE_BYTES:
            raise ValueError("a value is too large")
        _write_all(self.writes, struct.pack("I", len(data)) + data)

    def receive(self) -> Any:
        """Wait for a message.

        Raises:
            EOFError: The other side has ended, or sends what is no message.
        """
        (size,) = struct.unpack("I", self._exactly(4))
        if size > MESSAGE_BYTES:
            raise EOFError("a message is too long")
        try:
            return json.loads(self._exactly(size))
        except (ValueError, RecursionError) as error:
            raise EOFError("no message") from error

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = os.read(self.reads, size - len(data))
            if not part:
                raise EOFError("the other side has ended")
            data += part
        return data


def _pack(value: Any, other: Pack) -> Any:
    """Return a value as JSON: scalars as they are, all else as a list that begins with its kind.

    What is a subclass of a plain type travels as that type; `other` packs what is none.
    """
    if isinstance(value, _Remote | _RemoteClass):  # which has the attributes that it claims
        return other(value)
    if hasattr(value, "tolist"):
        if _is_array(value):
            return ["array", value.dtype.str, list(value.shape), value.tobytes().hex()]
        value = value.tolist()
    if value is None or type(value) in RAW:
        return value
    if isinstance(value, int) and value.bit_length() > LARGE_BITS:
        return ["int", hex(value)]
    for kind in (int, str, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, bytes | bytearray):
        return ["bytearray" if isinstance(value, bytearray) else "bytes", bytes(value).hex()]
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, dict):
        return ["dict", [[_pack(k, other), _pack(v, other)] for k, v in value.items()]]
    for name, group in GROUPS.items():
        if isinstance(value, group):
            return [name, [_pack(each, other) for each in value]]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    key = (type(value).__module__, type(value).__qualname__)
    if key in REBUILT:
        return ["rebuilt", *key, [_pack(each, other) for each in REBUILT[key](value)]]
    if isinstance(value, type({}.keys()) | type({}.values()) | type({}.items())):
        return _pack(list(value), other)
    return other(value)


def _unpack(data: Any, other: Callable[[str, list[Any]], Any]) -> Any:
    """Return what `_pack` packed; `other` takes kinds that are not plain."""
    if not isinstance(data, list):
        return data
    kind, *rest = data
    if kind in GROUPS:
        return GROUPS[kind](_unpack(each, other) for each in rest[0])
    if kind == "dict":
        return {_unpack(k, other): _unpack(v, other) for k, v in rest[0]}
    if kind == "int":
        return int(rest[0], 16)
    if kind in ("bytes", "bytearray"):
        return {"bytes": bytes, "bytearray": bytearray}[kind].fromhex(rest[0])
    if kind == "array":
        import numpy as np

        return np.frombuffer(bytes.fromhex(rest[2]), rest[0]).reshape(rest[1]).copy()
    if kind == "complex":
        return complex(*rest)
    if kind == "range":
        return range(*rest)
    if kind == "rebuilt" and (rest[0], rest[1]) in REBUILT:
        import importlib

        made = getattr(importlib.import_module(rest[0]), rest[1])
        return made(*(_unpack(each, other) for each in rest[2]))
    return other(kind, rest)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy, of numbers, times or texts."""
    kind = type(value)
    is_numpy = (kind.__module__, kind.__qualname__) == ("numpy", "ndarray")
    return is_numpy and value.dtype.kind in "biufcmMSU"


class _Iterator:
    """Takes each item from the other process when it is wanted: some have no end."""

    def __init__(self, step: Callable[[], Any], most: int | None = None) -> None:
        self._step = step
        self._left = most

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise RuntimeError(f"more than {MAX_ITEMS} items of an iterator")
        return self._step()


def _error_message(error: BaseException) -> list[Any]:
    return ["error", [each.__name__ for each in type(error).__mro__], str(error)[:1000]]


def _error_of(names: Any, text: Any, known: dict[str, Any]) -> Exception:
    """Return an exception of the first type that has a name here."""
    for name in names:
        kind = known.get(name) or getattr(builtins, str(name), None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            with contextlib.suppress(TypeError):  # UnicodeDecodeError takes more
                return kind(str(text))
    return RuntimeError(str(text))


# --- the program's side -------------------------------------------------------------------------


def _become(code: str, paths: list[str], has_judge: bool) -> None:
    """Run the program as the main module, or as another one that then answers its judge."""
    sys.path += [path for path in paths if path not in sys.path]
    sys.argv = ["program.py"]
    builtins.exit = builtins.quit = sys.exit  # which -S leaves out
    name = "program" if has_judge else "__main__"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(code, "program.py", "exec", dont_inherit=True), module.__dict__)
    if has_judge:
        _Answering(module.__dict__, _Wire(READ_FD, WRITE_FD)).attend()


class _Answering:
    """Do what the judge asks for, with the names of the program.

    Nothing here is trusted: a program can answer in its own way whatever it likes.
    """

    def __init__(self, scope: dict[str, Any], wire: _Wire) -> None:
        self.scope = scope
        self.wire = wire
        self.kept: dict[int, Any] = {}

    def attend(self) -> Any:
        """Answer until the judge has ended, or until a function of the tests returned."""
        while True:
            try:
                verb, *rest = self.wire.receive()
            except EOFError:
                os._exit(0)
            if verb == "returned":
                return self.unpack(rest[0])
            if verb == "raised":
                raise _error_of(*rest, {})
            try:
                answer = getattr(self, f"do_{verb}")(*rest)
                self.wire.send(answer)
            except BaseException as error:
                self.wire.send(_error_message(error))

    def do_names(self, names: list[str]) -> Any:
        return {name: self.kind_of(self.scope[name]) for name in names if name in self.scope}

    def kind_of(self, value: Any) -> Any:
        if isinstance(value, type):
            return ["exception"] if issubclass(value, BaseException) else ["class"]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        return ["function"] if callable(value) else ["value", self.pack(value)]

    def do_call(self, target: Any, attribute: str, args: list[Any], named: Any) -> Any:
        function = self.unpack(target)
        if attribute:
            function = getattr(function, attribute)
        given = [self.unpack(each) for each in args]
        options = {name: self.unpack(each) for name, each in named.items()}
        result = function(*given, **options)
        if hasattr(result, "__await__"):
            import asyncio

            async def wait() -> Any:
                return await result

            packed = ["awaited", self.pack(asyncio.run(wait()))]
        else:
            packed = self.pack(result)
        # What the function did to the lists, dictionaries and arrays that it was given.
        given, were = [*given, *options.values()], [*args, *named.values()]
        now = [self.pack(each) if _can_change(each) else None for each in given]
        return ["value", packed, [n if n != w else None for n, w in zip(now, were, strict=True)]]

    def do_get(self, target: Any, attribute: str) -> Any:
        value = getattr(self.unpack(target), attribute)
        return ["method"] if callable(value) else ["value", self.pack(value), []]

    def do_set(self, target: Any, attribute: str, value: Any) -> Any:
        setattr(self.unpack(target), attribute, self.unpack(value))
        return ["value", None, []]

    def pack(self, value: Any) -> Any:
        return _pack(value, self.pack_other)

    def pack_other(self, value: Any) -> Any:
        if hasattr(value, "__next__") and type(value).__module__ != "program":
            self.kept[id(value)] = value
            return ["iterator", id(value)]
        self.kept[id(value)] = value
        return ["object", id(value)]

    def unpack(self, data: Any) -> Any:
        return _unpack(data, self.unpack_other)

    def unpack_other(self, kind: str, rest: list[Any]) -> Any:
        if kind == "object":
            return self.kept[rest[0]]
        if kind == "name":
            return self.scope[rest[0]]
        if kind == "builtin":
            return getattr(builtins, rest[0])
        if kind == "iterator":
            return _Iterator(functools.partial(self.call_back, rest[0]))
        return functools.partial(self.call_back, rest[0])

    def call_back(self, number: int, *args: Any, **named: Any) -> Any:
        packed = {name: self.pack(each) for name, each in named.items()}
        self.wire.send(["callback", number, [self.pack(each) for each in args], packed])
        return self.attend()


# --- the judge's side ---------------------------------------------------------------------------


class _UnusableError(Exception):
    """A test gives the program what cannot leave the judge's process."""


class _Gone(BaseException):
    """The program's process has ended, or answers nonsense."""


def _judge(paths: list[str]) -> None:
    """Run tests with the program's names in the other process, and report which passed."""
    import ast

    sys.path += [path for path in paths if path not in sys.path]
    tests = marshal.loads(_read_all(0))
    trees = [ast.parse(source) for _, source in tests]
    asking = _Asking(_Wire(READ_FD, WRITE_FD))
    scope: dict[str, Any] = {"__name__": "__main__"}
    verdicts = ""
    try:
        scope |= asking.find_names(trees)
        for (kind, _), tree in zip(tests, trees, strict=True):
            try:
                exec(compile(tree, "tests.py", "exec", dont_inherit=True), scope)
                verdicts += "1"
            except _UnusableError as error:
                verdicts = f"unusable {error}"
                break
            except (_Gone, SystemExit):
                raise
            except BaseException:  # pytest's outcomes are no Exceptions
                if kind == "setup":
                    break
                verdicts += "0"
            if asking.unusable:  # and the test has caught the error
                verdicts = f"unusable {asking.unusable}"
                break
    except (_Gone, SystemExit):
        pass
    _write_all(4, verdicts.encode())
    os._exit(0)


class _Asking:
    """Have the program's process do what tests ask for, and trust none of its answers."""

    def __init__(self, wire: _Wire) -> None:
        self.wire = wire
        self.exceptions: dict[str, type[Exception]] = {}
        self.functions: dict[int, Any] = {}  # of the tests, which the program may call
        self.objects: dict[int, _Remote] = {}
        self.has_classes = False
        self.unusable = ""
        self.lock = threading.RLock()  # one talk at a time, whatever threads the tests start

    def find_names(self, trees: list[Any]) -> dict[str, Any]:
        """Return the stand-ins for the program's names that tests use.

        A built-in name is the program's only where tests use no other: a program that brings its
        own ``all`` or ``isinstance`` would pass whatever they guard.
        """
        import ast

        nodes = [node for tree in trees for node in ast.walk(tree)]
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used = {name for name in used - _bound(trees) if not name.startswith("__")}
        for are_builtin in (False, True):
            names = sorted(name for name in used if hasattr(builtins, name) is are_builtin)
            found = self._ask("names", names)
            if isinstance(found, dict) and found:
                return {n: self._stand_in(n, *found[n]) for n in names if n in found}
        return {}

    def _stand_in(self, name: str, kind: str, *rest: Any) -> Any:
        # By PEP 8 a class is a name in CapWords. Objects of the program answer for themselves, so
        # a function that should give a number may not be a class in disguise.
        if kind == "class" and name[:1].isupper():
            self.has_classes = True
            fields = {"_asking": self, "_target": ["name", name]}
            return _RemoteClass(name, (_RemoteObject,), fields)
        if kind == "exception":
            self.exceptions[name] = type(name, (Exception,), {})
            return self.exceptions[name]
        if kind == "module":
            import importlib

            # Such as `np`; a `math` that is another one may be less exact.
            is_named = name in sys.stdlib_module_names
            return importlib.import_module(name if is_named else rest[0])
        value = self.unpack(rest[0]) if kind == "value" else None
        # Nor may an object of the program's stand in for a module that the tests did not import.
        is_plain = kind == "value" and not isinstance(value, _Remote)
        return value if is_plain else _Remote(self, ["name", name])

    def call(self, target: Any, attribute: str, args: Any, named: dict[str, Any]) -> Any:
        packed = [self.pack(each) for each in args]
        options = {name: self.pack(each) for name, each in named.items()}
        value, changes = self._ask_value("call", target, attribute, packed, options)
        for given, change in zip([*args, *named.values()], changes, strict=False):
            if change is not None:
                _overwrite(given, self.unpack(change))
        return self.unpack(value)

    def get(self, target: Any, attribute: str) -> Any:
        answer = self._ask("get", target, attribute)
        if answer == ["method"]:
            return lambda *args, **named: self.call(target, attribute, args, named)
        return self.unpack(_fields(answer, "value", 2)[0])

    def set(self, target: Any, attribute: str, value: Any) -> None:
        self._ask("set", target, attribute, self.pack(value))

    def _ask_value(self, *request: Any) -> list[Any]:
        return _fields(self._ask(*request), "value", 2)

    def _ask(self, *request: Any) -> Any:
        """Send a request and return the answer, after the calls of the tests' own functions.

        Raises:
            Exception: The program raised one of this name.
            _Gone: There is no answer.
        """
        try:
            with self.lock:
                answer = self._answer(request)
        except (EOFError, OSError) as error:
            raise _Gone from error
        if isinstance(answer, list) and answer and answer[0] == "error":
            names, text = _fields(answer, "error", 2)
            raised = _error_of(names if isinstance(names, list) else [], text, self.exceptions)
            # It would end a loop of the tests early (PEP 479 for calls).
            is_end = isinstance(raised, StopIteration | StopAsyncIteration)
            raise RuntimeError(str(text)) if is_end and request[2] != "__next__" else raised
        return answer

    def _answer(self, request: Any) -> Any:
        try:
            self.wire.send(request)
        except ValueError as error:
            self.unusable = f"give the program more than {MESSAGE_BYTES >> 20} MB at once"
            raise _UnusableError(self.unusable) from error
        while True:
            answer = self.wire.receive()
            if not (isinstance(answer, list) and answer and answer[0] == "callback"):
                return answer
            self.wire.send(self._call_back(*_fields(answer, "callback", 3)))

    def _call_back(self, number: Any, args: Any, named: Any) -> Any:
        try:
            given = [self.unpack(each) for each in args]
            options = {str(name): self.unpack(each) for name, each in named.items()}
            return ["returned", self.pack(self.functions[number](*given, **options))]
        except Exception as error:
            return ["raised", *_error_message(error)[1:]]

    def pack(self, value: Any) -> Any:
        return _pack(value, self.pack_other)

    def pack_other(self, value: Any) -> Any:
        if isinstance(value, _Remote | _RemoteClass):
            return value._target
        is_ours = isinstance(value, types.ModuleType | types.CoroutineType)
        if is_ours or type(value) in self.exceptions.values():
            # What the program gave in another form; no fault of the row.
            raise TypeError(f"a {type(value).__name__} cannot be given to the program")
        if hasattr(value, "__next__"):
            self.functions[id(value)] = value.__next__
            return ["iterator", id(value)]
        name = getattr(value, "__name__", "")
        if getattr(builtins, str(name), None) is value:
            return ["builtin", name]
        if callable(value):
            self.functions[id(value)] = value
            return ["function", id(value)]
        self.unusable = f"give the program a {type(value).__name__}, which is not a plain value"
        raise _UnusableError(self.unusable)

    def unpack(self, data: Any) -> Any:
        try:
            return _unpack(data, self.unpack_other)
        except Exception as error:  # whatever a program made up
            raise _Gone from error

    def unpack_other(self, kind: Any, rest: list[Any]) -> Any:
        if kind == "awaited":
            value = self.unpack(rest[0])

            async def wait() -> Any:
                return value

            return wait()
        if kind == "function":
            return self.functions[rest[0]]
        if kind == "iterator":
            target = ["object", rest[0]]
            step = functools.partial(self.call, target, "__next__", (), {})
            return _Iterator(step, MAX_ITEMS)
        if kind != "object":
            raise ValueError(f"no kind {kind!r}")
        made = _RemoteObject if self.has_classes else _Remote
        if rest[0] not in self.objects:
            self.objects[rest[0]] = made(self, ["object", rest[0]])
        return self.objects[rest[0]]


def _bound(trees: list[Any]) -> set[str]:
    """Return the names that tests bind at the top of their module."""
    import ast

    found: set[str] = set()
    waiting: list[Any] = list(trees)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(row.asname or row.name).partition(".")[0] for row in node.names}
        waiting += ast.iter_child_nodes(node)
    return found


def _fields(answer: Any, kind: str, count: int) -> list[Any]:
    if not isinstance(answer, list) or len(answer) != count + 1 or answer[0] != kind:
        raise _Gone
    return answer[1:]


def _can_change(value: Any) -> bool:
    # By its methods, so that nothing has to be imported for a deque.
    return hasattr(value, "clear") or _is_array(value)


def _overwrite(given: Any, value: Any) -> None:
    """Give a list, dictionary, array or the like its content in the program's process."""
    if isinstance(given, list) and isinstance(value, list):
        given[:] = value
    elif type(value) is not type(given) or isinstance(given, _Remote):
        return
    elif isinstance(given, bytearray):
        given[:] = value
    elif _is_array(given):
        if (given.shape, given.dtype) == (value.shape, value.dtype):
            given[...] = value
    elif isinstance(given, dict | set):
        given.clear()
        given.update(value)
    elif hasattr(given, "extend"):  # a deque
        given.clear()
        given.extend(value)


class _Remote:
    """Takes the place of a function of the program: all that can be done with it is to call it."""

    def __init__(self, asking: _Asking, target: list[Any]) -> None:
        self.__dict__.update(_asking=asking, _target=target)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._asking.call(self._target, "", args, named)


class _RemoteClass(type):
    """Takes the place of a class of the program that tests name."""

    _asking: Any
    _target: Any

    def __call__(cls, *args: Any, **named: Any) -> Any:
        if cls in (_RemoteObject, _Derived):
            return super().__call__(*args, **named)
        return cls._asking.call(cls._target, "", args, named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or cls in (_RemoteObject, _Derived):
            raise AttributeError(name)
        return cls._asking.get(cls._target, name)

    def __iter__(cls) -> Any:
        return cls._asking.call(["builtin", "iter"], "", (cls,), {})

    def __instancecheck__(cls, value: Any) -> bool:
        if cls in (_RemoteObject, _Derived) or not isinstance(value, _Remote):
            return type.__instancecheck__(cls, value)
        return cls._asking.call(["builtin", "isinstance"], "", (value, cls), {}) is True


class _RemoteObject(_Remote, metaclass=_RemoteClass):
    """Takes the place of an object of a class of the program.

    It equals nothing but other objects of the program, and its arithmetic with values of the tests
    gives no plain value: an object that is close to any number would pass any tolerance.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._asking.get(self._target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._asking.set(self._target, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RemoteObject) and (
            self._asking.call(self._target, "__eq__", (other,), {}) is True
        )

    __hash__ = object.__hash__

    def __enter__(self) -> Any:
        return self._asking.call(self._target, "__enter__", (), {})

    def __exit__(self, *_: Any) -> None:
        # It learns nothing of a failed test, and swallows none.
        self._asking.call(self._target, "__exit__", (None, None, None), {})

    def __next__(self) -> Any:
        return self._asking.call(self._target, "__next__", (), {})

    def __getitem__(self, key: Any) -> Any:
        return self._asking.call(self._target, "__getitem__", (key,), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self._asking.call(self._target, "__setitem__", (key, value), {})

    def __delitem__(self, key: Any) -> None:
        self._asking.call(self._target, "__delitem__", (key,), {})


class _Derived(_RemoteObject):
    """What an operator made of an object and a value of the tests, which is compared only.

    Without length, truth, text and items: each of them would be the program's word on the value.
    """

    __len__ = __iter__ = __getitem__ = __str__ = None  # type: ignore[assignment]  # as __hash__ is

    def __bool__(self) -> bool:
        raise TypeError("an object of the program has no truth beside a value of the tests")


def _built_in(name: str) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        return self._asking.call(["builtin", name], "", (self,), {})

    return method


def _operate(name: str) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        result = self._asking.call(self._target, name, others, {})
        are_remote = all(isinstance(each, _RemoteObject) for each in others)
        if others and are_remote and not any(isinstance(e, _Derived) for e in (self, *others)):
            return result
        if isinstance(result, _RemoteObject):
            return _Derived(self._asking, result._target)
        return NotImplemented if others else _refuse(name)

    return method


def _refuse(name: str) -> NoReturn:
    raise TypeError(f"{name} of an object of the program gives no plain value")


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor"
for _name in ("bool", "len", "iter", "str", "repr"):
    setattr(_RemoteObject, f"__{_name}__", _built_in(_name))
for _name in [*_OPERATORS.split(), *(f"r{each}" for each in _OPERATORS.split())]:
    setattr(_RemoteObject, f"__{_name}__", _operate(f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge", "neg", "abs"):
    setattr(_RemoteObject, f"__{_name}__", _operate(f"__{_name}__"))


if __name__ == "__main__":
    main()
