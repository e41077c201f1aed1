"""Escape attempts: what a program in a completion may try, and what then happens instead."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from areal import sandbox

pytestmark = pytest.mark.heavy

SANDBOX = Path(sandbox.__file__)
ALL_BACKENDS: tuple[str, ...] = sandbox.BACKENDS


def use(monkeypatch: pytest.MonkeyPatch, *backends: str) -> None:
    monkeypatch.setattr(sandbox, "BACKENDS", backends)
    sandbox.find_backend.cache_clear()


@pytest.fixture(params=ALL_BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Has one backend keep the files, where this machine has it."""
    use(monkeypatch, request.param)
    found, reasons = sandbox.find_backend()
    if not found:
        pytest.skip(reasons)
    yield request.param
    sandbox.find_backend.cache_clear()


def end_of(code: str, stdin: str = "", **limits: float) -> Any:
    chosen = sandbox.Limits(cpu_s=5.0, total_wall_s=60.0)._replace(**limits)
    return sandbox.run(code, [sandbox.Case(stdin)], chosen)[0]


def escapes(modules: str, attempts: dict[str, str]) -> dict[str, str]:
    """Runs a program that tries one thing after the other: what came of those not refused."""
    code = f"import json, os, {modules}\nhome = os.getcwd()\nfound = {{}}\n"
    for name, attempt in attempts.items():
        code += (
            f"try:\n    {attempt}\nexcept (OSError, ImportError, ValueError):\n    pass\n"
            f"else:\n    found[{name!r}] = 'ESCAPED'\nos.chdir(home)\n"
        )
    done = end_of(code + "print()\nprint(json.dumps(found))\n")
    # What is above the last line was read by an attempt that was not refused.
    return json.loads(done.output.splitlines()[-1]) if done.end == "ok" else {done.end: done.output}


# --- files --------------------------------------------------------------------------------------

WRITES = {
    "create": "open({path!r}, 'w').close()",
    "append": "open({there!r}, 'a').write('x')",
    "truncate": "os.truncate({there!r}, 0)",
    "delete": "os.unlink({there!r})",
    "move": "os.rename({there!r}, {path!r})",
    "folder": "os.mkdir({path!r})",
    "mode": "os.chmod({there!r}, 0o777)",
    "owner": "os.chown({there!r}, 1, 1)",
    "times": "os.utime({there!r}, (1, 1))",
    "attribute": "os.setxattr({there!r}, 'user.x', b'1')",
    "symbolic link": "os.symlink({there!r}, 'link'); open('link', 'w').close()",
    "link to a folder": "os.symlink({folder!r}, 'folder'); open('folder/new', 'w').close()",
    "hard link": "os.link({there!r}, 'hard'); open('hard', 'w').close()",
    "up": "open('../../../../../../..' + {path!r}, 'w').close()",
    "by a folder": "fd = os.open('/', os.O_RDONLY); os.open({path!r}[1:], 66, dir_fd=fd)",
    "own program": "open({program!r}, 'a').close()",
    "a library": "open(os.__file__, 'a').close()",
    "shared memory": "open('/dev/shm/escaped', 'w').close()",
    "a device": "os.mknod('disk', 0o60666, os.makedev(8, 0))",
    "another root": "os.chroot('.')",
    "the root's parent": "os.chdir('/'); os.chdir('..'); open({path!r}[1:], 'w').close()",
}
READS = {
    "a file": "print(open({there!r}).read())",
    "a program": "print(open({program!r}).read())",
    "accounts": "print(open('/etc/passwd').read())",
    "temporary files": "print(os.listdir({folder!r}))",
    "the parent's environment": "print(open('/proc/%d/environ' % {pid}).read())",
    "the supervisor's memory": "print(open('/proc/%d/mem' % os.getppid()).read(1))",
    "the root of another": "print(os.listdir('/proc/1/root'))",
    "another's descriptor": "print(open('/proc/{pid}/fd/0').read())",
    "a disk": "print(open('/dev/vda', 'rb').read(1))",
}


def test_no_other_files(backend: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("a secret")
    there.chmod(0o666)
    tmp_path.chmod(0o777)
    before = there.stat()
    names = {
        "path": str(tmp_path / "escaped"),
        "there": str(there),
        "folder": str(tmp_path),
        "program": str(SANDBOX),
        "pid": os.getpid(),
    }
    attempts = {name: code.format(**names) for name, code in {**WRITES, **READS}.items()}
    assert escapes("sys", attempts) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    after = there.stat()
    assert there.read_text() == "a secret"
    assert (after.st_mode, after.st_uid, after.st_mtime_ns, after.st_nlink) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime_ns,
        before.st_nlink,
    )
    assert not Path("/dev/shm/escaped").exists()


@pytest.mark.parametrize("flags", ["O_RDONLY | os.O_TRUNC", "O_ACCMODE | os.O_TRUNC", "O_ACCMODE"])
@pytest.mark.parametrize("version", [1, 3])
def test_no_version_of_landlock_lets_files_be_emptied(
    flags: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SANDBOX.read_text()
    older = text.replace("min(abi, 3)", f"min({version}, 3)")
    assert older != text
    (tmp_path / "older.py").write_text(older)
    (tmp_path / "readable").mkdir()
    there = [tmp_path / "readable" / "library", tmp_path / "checkpoint"]
    for path in there:
        path.write_text("kept")
    roots, paths = sandbox._readable()
    monkeypatch.setattr(sandbox, "_readable", lambda: ([*roots, str(there[0].parent)], paths))
    monkeypatch.setattr(sandbox, "__file__", str(tmp_path / "older.py"))
    use(monkeypatch, "landlock")
    if not sandbox.find_backend()[0]:
        pytest.skip(sandbox.find_backend()[1])
    for path in there:
        assert escapes("sys", {"open": f"os.open({str(path)!r}, os.{flags})"}) == {}
        assert path.read_text() == "kept"
    sandbox.find_backend.cache_clear()


def test_the_scratch_folder_is_of_use_and_gone_afterwards(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import os, tempfile
with open("notes", "w") as file:
    file.write("kept")
os.rename("notes", "moved")
with tempfile.NamedTemporaryFile() as file:
    file.write(b"kept too")
is_home = os.getcwd() == os.environ["HOME"] == tempfile.gettempdir()
print(open("moved").read(), os.listdir("."), is_home)
print(os.getcwd())
"""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # which no other test fills
    first, second = sandbox.run(code, [sandbox.Case(), sandbox.Case()])
    assert first.end == second.end == "ok"
    assert escapes("sys", {"own file": "open('own', 'w').close()"}) == {"own file": "ESCAPED"}
    assert first.output.startswith("kept ['moved'] True\n")
    assert second.output.startswith("kept ['moved'] True\n")
    assert not list(tmp_path.iterdir())
    assert not os.path.exists(first.output.splitlines()[-1])


@pytest.mark.parametrize("size_bytes", [0, 4 << 20])
def test_a_full_scratch_folder_ends_the_program(backend: str, size_bytes: int) -> None:
    code = f"""
for n in range(10**9):
    with open(f"file{{n}}", "wb") as file:
        file.write(bytes({size_bytes}))
"""
    done = end_of(code, scratch_bytes=4 << 20)
    assert done.end in ("scratch", "status 1")


def test_a_file_cannot_outgrow_its_limit(backend: str) -> None:
    assert escapes("sys", {"grow": "open('big', 'wb').write(bytes(9 << 20))"}) == {}


def test_the_environment_holds_no_secret(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "a secret")
    done = end_of("import os, sys\nprint(dict(os.environ), sys.argv, sys.orig_argv)")
    assert done.end == "ok"
    assert "secret" not in done.output


# --- network ------------------------------------------------------------------------------------

SOCKETS = {
    "tcp": "socket.create_connection(('127.0.0.1', {port}), 1)",
    "tcp 6": "socket.create_connection(('::1', {port}), 1)",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "unix": "socket.socket(socket.AF_UNIX).connect({path!r})",
    "abstract": "socket.socket(socket.AF_UNIX).connect(chr(0) + {name!r})",
    "listen": "socket.create_server(('127.0.0.1', 0))",
    "names": "socket.gethostbyname('localhost.example')",
    "web": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=1)",
    "pair to a path": "a, b = socket.socketpair(type=socket.SOCK_DGRAM); a.sendto(b'x', {path!r})",
    "pair": "a, b = socket.socketpair(); a.connect({path!r})",
}


def test_no_network(backend: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="s"))
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        path, unique = f"{folder}/s", f"scaffold-{os.getpid()}-{backend}"
        os.chmod(folder, 0o755)
        unix.bind(path)
        abstract.bind("\0" + unique)
        values = {"port": tcp.getsockname()[1], "path": path, "name": unique}
        for server in (unix, abstract):
            server.listen()
        attempts = {name: code.format(**values) for name, code in SOCKETS.items()}
        assert escapes("socket", attempts) == {}
        for server in (tcp, unix, abstract):
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()


def test_a_pair_of_sockets_and_asyncio_work(backend: str) -> None:
    code = """
import asyncio, threading
async def main():
    return await asyncio.to_thread(sum, range(10))
print(asyncio.run(main()))
"""
    assert end_of(code).output == "45\n"


# --- processes ----------------------------------------------------------------------------------

PROCESSES = {
    "fork": "os.fork()",
    "fork bomb": "while True: os.fork()",
    "daemon": "os.fork() or (os.setsid(), os.fork() or time.sleep(60))",
    "pty": "os.forkpty()",
    "spawn": "os.posix_spawn('/bin/sh', ['sh', '-c', 'true'], {})",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'echo ESCAPED'])",
    "exec python": "os.execv(sys.executable, ['python', '-c', 'print(\"ESCAPED\")'])",
    "subprocess": "subprocess.run(['true'])",
    "pool": "multiprocessing.Pool(1)",
    "kill all": "os.kill(-1, 9)",
    "kill the parent": "os.kill(os.getppid() or 1, 9)",
    "kill the grader": "os.kill({pid}, 9)",
    "kill the group": "os.killpg(0, 9)",
    "kill by descriptor": "signal.pidfd_send_signal(os.pidfd_open({pid}), 9)",
    "limit the grader": "resource.prlimit({pid}, resource.RLIMIT_CPU, (1, 1))",
    "own the signals": "r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, {pid})",
    "own by ioctl": "a, b = socket.socketpair(); fcntl.ioctl(a, 0x8901, struct.pack('i', {pid}))",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "priority": "os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
    "affinity": "os.sched_setaffinity({pid}, [0])",
    "become root": "os.setuid(0)",
}
MODULES = "fcntl, multiprocessing, os, resource, signal, socket, struct, subprocess, sys, time"
X86_64 = {
    "fork": "57",
    "vfork": "58",
    "clone": "56, 17, 0, 0, 0, 0",
    "clone3": "435, ctypes.create_string_buffer(88), 88",
    "clone into a new user": "56, 0x10000011, 0, 0, 0, 0",
    "ptrace": "101, 16, {pid}, 0, 0",
    "read memory": "310, {pid}, 0, 0, 0, 0, 0",
    "write memory": "311, {pid}, 0, 0, 0, 0, 0",
    "socket": "41, 2, 1, 0",
    "socket of the other table": "0x40000029, 2, 1, 0",
    "unshare": "272, 0x10000000",
    "mount": "165, b'none', b'/', b'tmpfs', 0, 0",
    "ring": "425, 8, ctypes.create_string_buffer(120)",
    "bpf": "321, 0, 0, 0",
    "perf": "298, 0, 0, 0, 0, 0",
    "key": "250, 0, 0, 0, 0, 0",
    "filter": "317, 1, 0, 0",
    "outlive": "157, 1, 0, 0, 0, 0",
    "shared memory": "29, 1, 4096, 0o1666",
    "memory file": "319, b'x', 0",
    "by handle": "304, 0, 0, 0",
    "reboot": "169, 0xfee1dead, 672274793, 0, 0",
    "beyond the table": "9999, 0",
}


def test_no_other_processes(backend: str) -> None:
    pid = str(os.getpid())
    attempts = {name: code.replace("{pid}", pid) for name, code in PROCESSES.items()}
    assert escapes(MODULES, attempts) == {}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_no_bare_system_calls(backend: str) -> None:
    code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    for arguments in X86_64.values():
        code += f"print(libc.syscall({arguments}), ctypes.get_errno())\n"
    done = end_of(code.replace("{pid}", str(os.getpid())))
    assert done.end == "ok"
    found = dict(zip(X86_64, done.output.splitlines(), strict=True))
    assert {name: end for name, end in found.items() if end not in ("-1 1", "-1 38")} == {}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the code is of x86_64")
def test_the_calls_of_32_bits_end_the_program(backend: str) -> None:
    code = """
import ctypes, mmap
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(bytes.fromhex("b802000000cd80c3"))  # mov eax, 2 (fork); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    done = end_of(code)
    assert done.end.startswith("status -")
    assert done.output == ""


def test_threads_work_and_are_limited(backend: str) -> None:
    code = "import threading\n{}threading.Thread(target=lambda: print('late')).start()"
    assert end_of(code.format("")).output == "late\n"
    bomb = """
import threading, time
threading.stack_size(32768)
while True:
    threading.Thread(target=time.sleep, args=(60,)).start()
"""
    assert end_of(bomb).end == "threads"


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("while True: pass", "time"),
        ("import signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True: pass", "time"),
        ("while True: print('x' * 9999)", "output"),
        ("import os\nwhile True: os.write(1, bytes(9999))", "output"),
        ("x = [0]\nwhile True: x += x", "status 1"),
        ("x = bytearray(1 << 40)", "status 1"),
        ("import os\nwhile True: os.pipe()", "status 1"),
        ("def f(): f()\nf()", "status 1"),
        ("import ctypes\nctypes.string_at(0)", "status -11"),
        ("import os\nos._exit(3)", "status 3"),
        ("import os\nos.abort()", "status -11"),
        ("raise SystemExit('no')", "status 1"),
        ("\0", "status 1"),
        ("(" * 10_000, "status 1"),
    ],
    ids=range(14),
)
def test_limits(backend: str, code: str, end: str) -> None:
    done = end_of(code, cpu_s=0.3 if end == "time" else 5, wall_s=60, memory_bytes=256 << 20)
    assert done.end == end


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import os; os.read(os.pipe()[0], 1)",
        "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
        "import threading; threading.Event().wait()",
    ],
    ids=range(4),
)
def test_time_that_is_up_before_processor_time_is_no_zero(backend: str, code: str) -> None:
    with pytest.raises(RuntimeError, match="or the program sleeps; try again"):
        end_of(code, wall_s=0.3)
    with pytest.raises(RuntimeError, match="or the program sleeps; try again"):
        sandbox.run_tests(code, [("test", "assert f(1)")], sandbox.Limits(total_wall_s=0.3))


def test_processor_time_counts_beside_time(backend: str) -> None:
    done = end_of("import time\nwhile time.process_time() < 0.3: pass", cpu_s=0.2)
    assert done.end == "time"


def test_what_no_processor_time_is_left_for_has_failed() -> None:
    limits = sandbox.Limits(cpu_s=0.4, total_cpu_s=0.6)
    code = "n = int(input()); print(n, flush=True)\nwhile n: pass"
    cases = [sandbox.Case(text) for text in ("0", "60", "60", "0", "0")]
    runs = sandbox.run(code, cases, limits)
    assert [done.end for done in runs] == ["ok", *["time"] * 4]
    assert [done.output for done in runs[3:]] == ["", ""]
    runs = sandbox.run(code, cases, limits, stop_early=True)
    assert [done.end for done in runs] == ["ok", *["time"] * 4]
    assert [done.output for done in runs[2:]] == ["", "", ""]


def test_programs_see_nothing_of_each_other(backend: str) -> None:
    code = """
import os, sys
print(input(), os.listdir("."), hasattr(sys, "left_behind"))
sys.left_behind = True
open("left_behind", "w").close()
"""
    runs = sandbox.run(code, [sandbox.Case("a"), sandbox.Case("b")])
    assert [done.output for done in runs] == ["a [] False\n", "b [] False\n"]


def test_the_graders_packages_are_there(backend: str) -> None:
    pytest.importorskip("numpy")
    code = "import numpy\nprint((numpy.ones((99, 99)) @ numpy.ones((99, 99)))[0, 0])"
    assert end_of(code) == ("ok", "99.0\n", ())


def test_programs_may_leave_as_people_write_it(backend: str) -> None:
    for leave in ("exit()", "quit(0)", "import sys; sys.exit()"):
        assert end_of(f"print(1)\n{leave}\nprint(2)") == ("ok", "1\n", ())
    assert end_of("exit('no')").end == "status 1"


def test_programs_are_main_and_end_as_python_does(backend: str) -> None:
    code = """
import atexit, dataclasses, pickle, sys
@dataclasses.dataclass
class Point:
    x: int
atexit.register(print, "at exit")
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Point(1))), sys.stdin.read().upper(), sys.stdin.encoding)
"""
    done = end_of(code, stdin="äé\N{GRINNING FACE}")
    assert done == ("ok", "Point(x=1) ÄÉ\N{GRINNING FACE} utf-8\nat exit\n", ())


# --- tests --------------------------------------------------------------------------------------

WIRE = """
import json, os, struct
def send(message):
    data = json.dumps(message).encode()
    os.write(5, struct.pack("I", len(data)) + data)
def receive(): return os.read(6, struct.unpack("I", os.read(6, 4))[0])"""
FORGERIES = {
    "exit": "import os; os._exit(0)",
    "system exit": "raise SystemExit(0)",
    "exit in the function": "def f(x):\n    import os\n    os._exit(0)",
    "exit at exit": "import atexit, os; atexit.register(os._exit, 0)",
    "print": "print('True\\n' * 9)",
    "no asserts": "import builtins; builtins.AssertionError = type('E', (Exception,), {})",
    "nothing raises": "import sys; sys.settrace(lambda *a: None)\ndef f(x): return 1",
    "equals all": "class All:\n    __eq__ = lambda s, o: True\ndef f(x): return All()",
    "equals all numbers": "class N(int):\n    __eq__ = lambda s, o: True\ndef f(x): return N(1)",
    "equals all lists": "class L(list):\n    __eq__ = lambda s, o: True\ndef f(x): return L()",
    "close to all": """
class Close(float):
    __sub__ = __rsub__ = lambda s, o: 0.0
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda s, o: True
def f(x): return Close(1)""",
    "a class in disguise": """
class f:
    def __init__(self, x): pass
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda s, o: True
    __sub__ = __rsub__ = lambda s, o: 0.0
    __abs__ = __float__ = lambda s: 0.0
    __iter__ = lambda s: iter([424242] * 0)
    __getattr__ = lambda s, n: lambda *a: True""",
    "anything": """
class Any:
    __getattr__ = __getitem__ = __call__ = lambda s, *a: Any()
    __eq__ = __ne__ = __lt__ = __gt__ = __contains__ = lambda s, o: True
    __hash__ = lambda s: 0
    __abs__ = __sub__ = __rsub__ = lambda s, *a: Any()
def f(x): return Any()""",
    "own built-ins": """
for name in "all any abs isinstance sorted len round sum zip set type".split():
    globals()[name] = lambda *a, **k: True
def f(x): return 1""",
    "own modules": """
import math, sys, types
class Yes(types.ModuleType):
    __getattr__ = lambda s, n: lambda *a, **k: True
math.isclose = lambda *a, **k: True
sys.modules["math"] = math = Yes("math")
def f(x): return 1""",
    "own tests": """
def check(*a): pass
def same(*a): return True
ANSWER = 1
def f(x): return 1""",
    "write everywhere": """
import os
for fd in range(64):
    for text in (b"1" * 99, b"True\\nTrue\\n", b"\\2\\0\\0\\0{}" * 9):
        try:
            os.write(fd, text)
        except OSError:
            pass
os._exit(0)""",
    "answer for itself": """
import json, os, struct
def send(message):
    data = json.dumps(message).encode()
    os.write(5, struct.pack("I", len(data)) + data)
send({"f": ["function"], "check": ["function"], "ANSWER": ["value", 1], "math": ["function"]})
while os.read(6, 1 << 16):
    send(["value", 1, []])""",
    "look around": """
import gc, os, sys
def f(x):
    found = [repr(each) for each in gc.get_objects()]
    frame = sys._getframe()
    while frame:
        found.append(repr((frame.f_locals, frame.f_globals)))
        frame = frame.f_back
    for fd in range(64):
        try:
            found.append(repr(os.pread(fd, 1 << 20, 0)))
        except OSError:
            pass
    for pid in range(1, 9):
        for name in ("environ", "cmdline", "mem", "maps", "fd"):
            try:
                found.append(repr(open(f"/proc/{pid}/{name}", "rb").read()))
            except OSError:
                pass
    wanted = "".join(["4", "24242"])
    return int(wanted) if wanted in "".join(found) else 0""",
    "read the memory": """
import ctypes, re
library = ctypes.CDLL(None)
library.sbrk.restype = ctypes.c_void_p
wanted, page = re.compile(b"f[(]2[)] == ([0-9]+)"), ctypes.create_string_buffer(1)
places = [(library.sbrk(0) & ~4095) - (8 << 20), (id(object()) & ~4095) - (8 << 20)]
found = []
for begin in places:
    for at in range(begin, begin + (16 << 20), 4096):
        if library.mincore(ctypes.c_void_p(at), ctypes.c_size_t(4096), page) == 0:
            found += wanted.findall(ctypes.string_at(at, 4096))
def f(x): return int(found[0]) if found else 0""",
    "named as the tests name": """
class METADATA: pass
class Near:
    __sub__ = __rsub__ = __mod__ = lambda s, o: s
    __abs__ = lambda s: 0.0
    __lt__ = __gt__ = __le__ = __contains__ = lambda s, o: True
def f(x): return Near()""",
    "end early": "def f(x): raise StopIteration",
    "another module of a name": f"""{WIRE}
receive()
send({{"f": ["module", "unittest.mock"], "math": ["module", "numpy"], "all": ["module", "os"]}})
while receive():
    send(["value", 1, []])""",
    "answers ahead": f"""{WIRE}
receive()
send({{"f": ["function"]}})
for n in range(2000):
    send(["value", float("nan"), []])
os._exit(0)""",
    "values of every kind": f"""{WIRE}
receive()
send({{"f": ["function"]}})
kinds = [["awaited", 1], ["object", 1], ["iterator", []], ["range", 0, 2, 1], ["builtin", "all"],
         ["name", "f"], ["class"], ["rebuilt", "builtins", "eval", ["1"]], ["complex", 1e999, 0]]
while receive():
    send(["value", kinds[0], [["list", [1]]]])
    kinds.append(kinds.pop(0))""",
    "own packing": """
import sys
main = sys.modules["__main__"]
main._Answering.pack = lambda s, value: ["builtin", "all"]
def f(x): return 1""",
    "an exception for a function": "class f(Exception): __eq__ = lambda s, o: True",
    "an iterator of everything": "import itertools\ndef f(x): return itertools.count()",
    "an empty array": "import numpy\ndef f(x): return numpy.zeros(0)",
    "an array of anything": "import numpy\ndef f(x): return numpy.array([Any()])\n"
    "class Any:\n    __eq__ = __lt__ = __gt__ = __abs__ = __sub__ = lambda s, *o: True",
    "a module in the scratch folder": """
import sys, types
sys.path.insert(0, ".")
open("lenient.py", "w").write("isclose = check = same = lambda *a, **k: True")
import lenient
math = check = same = lenient
def f(x): return 1""",
    "not a number": "def f(x): return float('nan')",
}
# No value is right for all of them, and no program knows the numbers.
FORMS = {
    "equal": "assert f(2) == 424242",
    "turned round": "assert 424242 == f(2)",
    "of a list": "assert f(2) == [424242]",
    "a chain": "assert 424241 < f(2) < 424243",
    "a member": "assert f(2) in (424242, 424243)",
    "contains": "assert 424242 in f(2)",
    "close": "assert abs(f(2) - 424242.0) < 1e-6",
    "math": "import math\nassert math.isclose(f(2), 424242)",
    "sorted": "assert sorted(f(2)) == [4, 2, 424242]",
    "length": "assert len(f(2)) == 424242",
    "type and value": "assert isinstance(f(2), int) and f(2) % 424242 == 424241",
    "all": "assert all(f(n) == n + 424242 for n in range(3))",
    "a loop": "for n in range(3):\n    assert f(n) == 424242 + n",
    "a check": "def check(g):\n    assert g(2) == 424242\ncheck(f)",
    "a reference": "def same(n):\n    return n * 424242\nassert f(2) == same(2)",
    "a named answer": "ANSWER = 424242\nassert f(2) == ANSWER",
    "an error": "try:\n    f(2)\nexcept KeyError as error:\n    assert '424242' in str(error)\n"
    "else:\n    raise AssertionError",
    "a method": "assert f(2).upper() == 'A424242'",
    "a message": "assert f(2) == 424242, f'{f(2)} is not it'",
    "named things": "METADATA = {'by': 'x'}\nassert abs(f(2) - 424242) < 1e-6",
    "side by side": "assert all(a == b for a, b in zip(map(f, [2, 3]), [424242, 5]))",
    "as a script": "if __name__ == '__main__':\n    assert f(2) == 424242",
    "not equal to a neighbour": "assert not f(2) != 424242",
    "a module of the program's": "assert math.isclose(f(2), 424242)",
    "in place": "xs = [3, 424242]\nf(xs)\nassert xs == [424242, 3, 5]",
    "by a callback": "assert f(lambda n: n * 424242) == 424242",
}
# As the data sets have them, which the reward takes apart.
ROWS = {
    "HumanEval": ("def check(g):\n    assert g(2) == 424242\n    assert g(3) == 5\n", "f"),
    "MBPP": (["assert f(2) == 424242", "assert set(f(3)) == set([424242])"], None),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_no_form_of_test_is_forged(name: str) -> None:
    forms = [(form, ("test", text)) for form, text in FORMS.items()]
    forms += [(form, test) for form, row in ROWS.items() for test in sandbox.read_tests(*row)]
    tests = [("test", text) for _, (_, text) in forms]
    passed = sandbox.run_tests(FORGERIES[name], tests, sandbox.Limits(cpu_s=2.0))
    assert [
        form for (form, (kind, _)), ok in zip(forms, passed, strict=True) if ok and kind == "test"
    ] == []


def test_a_module_that_tests_do_not_import_is_no_less_exact_one() -> None:
    pytest.importorskip("numpy")
    code = "import types\nmath = types.ModuleType('numpy')\ndef f(x): return 424239.0"
    assert sandbox.run_tests(code, [("test", "assert math.isclose(f(2), 424242)")]) == [False]


NEAR = """
class Solution:
    def f(self, x): return Near()
class Near:
    __sub__ = __rsub__ = __xor__ = __and__ = __neg__ = lambda s, *o: Near()
    __abs__ = lambda s: 0.0
    __len__ = lambda s: 0
    __iter__ = lambda s: iter([])
    __str__ = lambda s: "0"
    __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __eq__ = lambda s, o: True
"""
OF_OBJECTS = [
    "assert Solution().f(2) == 424242",
    "assert abs(Solution().f(2) - 424242) < 1e-6",
    "assert 424242 in Solution().f(2)",
    "assert len(Solution().f(2) - {1, 2}) == 0",
    "assert not (Solution().f(2) ^ {4, 2})",
    "assert not list(Solution().f(2) - {4, 2})",
    "assert str(Solution().f(2) - 424242) == '0'",
    "assert -(424242 - Solution().f(2)) <= 0",
    "assert 424241 < Solution().f(2) < 424243",
    "import unittest\nunittest.TestCase().assertAlmostEqual(Solution().f(2), 424242)",
]


def test_objects_of_a_class_that_tests_name_are_near_to_nothing() -> None:
    tests = tuple(("test", each) for each in OF_OBJECTS)
    (done,) = sandbox.run(NEAR, [sandbox.Case("", tests)])
    wrong = [test for test, passed in zip(OF_OBJECTS, done.passed, strict=True) if passed]
    assert wrong == []


def test_no_judge_is_reached_where_nothing_locks_programs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch)
    code = """
import os
for pid in range(os.getpid() - 9, os.getpid() + 9):
    try:
        os.write(os.open(f"/proc/{pid}/fd/4", os.O_WRONLY), b"1")
    except OSError:
        pass
def f(x): return 0"""
    case = sandbox.Case("", (("test", "assert f(2) == 424242"),))
    (done,) = sandbox.run(code, [case], allow_unsandboxed=True)
    assert done.passed == (False,)
    sandbox.find_backend.cache_clear()


def test_what_a_program_gives_back_to_itself_is_no_fault_of_the_row(made: ModuleType) -> None:
    again = "async def f(x): return x"
    assert score(made, again, test_code="assert f(f(1)) == 1") == 0.0
    timer = (
        "class Timer:\n    x = 0\n    __enter__ = lambda s: s\n    __exit__ = lambda s, *a: True"
    )
    assert score(made, timer, test_code="with Timer() as t:\n    assert t.x == 1") == 0.0
    objects = "class C:\n    def __init__(self, n): self.n = n\n"
    objects += "def total(cs): return sum(c.n for c in cs)"
    assert score(made, objects, test_code="assert total([C(1), C(2)]) == 3") == 1.0


def test_cases_of_unittest_are_tests(made: ModuleType) -> None:
    tests = """
import unittest
class TestF(unittest.TestCase):
    def setUp(self): self.n = 2
    def test_it(self): self.assertEqual(f(self.n), 4)
    def test_zero(self): self.assertEqual(f(0), 0)
if __name__ == "__main__":
    unittest.main()
"""
    assert score(made, "def f(x): return 2 * x", test_code=tests) == 1.0
    assert score(made, "def f(x): return 0", test_code=tests) == 0.0


HONEST = """
import asyncio, collections, decimal, enum, functools, math, typing
V = 3
def double(x): return 2 * x
def order(xs): xs.sort()
def keep(test, xs): return [x for x in xs if test(x)]
def upto(n): yield from range(n)
def add(x): return lambda y: x + y
def pick(x): return collections.Counter(x)
def price(x): return decimal.Decimal(x) / 4
async def later(x): return x + 1
class Short(ValueError): pass
def refuse(x): raise (Short if x < 0 else KeyError)("no")
class Color(enum.Enum):
    RED = 1
def color(): return Color.RED
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x); return self
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __repr__(self): return f"Stack({self.items})"
    def __eq__(self, other): return isinstance(other, Stack) and self.items == other.items
def grow(xs, by=()):
    xs += by
    by.append(0)
def counted(n):
    while True: yield n
def first(xs): return next(xs)
def digits(n): return 10**n
def mean(a): return a.mean(axis=0)
def scale(a, by): a *= by
def rotate(d): d.rotate(1)
def stamp(b): b.append(1)
class Vector(typing.NamedTuple):
    x: int
class Money:
    def __init__(self, n): self.n = n
    def __add__(self, other): return Money(self.n + other.n)
    def __mul__(self, times): return Money(self.n * times)
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other): return self.n < other.n
"""
TRUE_TESTS = [
    "assert double(2) == 4 and double([1, 'x']) == [1, 'x', 1, 'x'] and double((1,)) == (1, 1)",
    "assert double('\\n\\ud800') == '\\n\\ud800' * 2 and double(b'a') == b'aa'",
    "import math\nassert math.isclose(double(0.1), 0.2) and math.isnan(double(math.nan))",
    "assert double(10**30) == 2 * 10**30 and double(1j) == 2j and double(True) is not True",
    "xs = [3, 1, 2]\norder(xs)\nassert xs == [1, 2, 3]",
    "assert keep(lambda x: x > 1, {1, 2, 3}) == [2, 3] and keep(str.isupper, 'aB') == ['B']",
    "assert list(upto(3)) == [0, 1, 2] and next(upto(1)) == 0 and add(1)(2) == 3",
    "assert pick('aab') == {'a': 2, 'b': 1} and pick('aab')['a'] == 2",
    "from decimal import Decimal\nassert price(1) == Decimal('0.25')",
    "import asyncio\nassert asyncio.run(later(1)) == 2",
    "try:\n    refuse(-1)\nexcept Short as error:\n    assert str(error) == 'no'\n"
    "else:\n    raise AssertionError",
    "try:\n    refuse(1)\n    assert False\nexcept KeyError:\n    pass",
    "assert color() == Color.RED and Color.RED.value == 1 and [c.name for c in Color] == ['RED']",
    "s = Stack()\ns.push(1).push(2)\nassert len(s) == 2 and list(s) == [1, 2] and s.pop() == 2",
    "assert Stack() == Stack() and Stack() != Stack().push(1) and repr(Stack()) == 'Stack([])'",
    "assert isinstance(Stack(), Stack) and not isinstance(3, Stack) and Stack() != []",
    "s = Stack()\ns.items = [7]\nassert s.items == [7]",
    "assert Money(1) + Money(2) == Money(3) and Money(2) * 3 == Money(6) and Money(1) < Money(2)",
    "assert Vector(1) == (1,) and V == 3",
    "for n in range(3):\n    assert double(n) == n + n",
    "xs, ys = [1], [2]\ngrow(xs, by=ys)\nassert (xs, ys) == ([1, 2], [2, 0])",
    "import itertools\nassert list(itertools.islice(counted(7), 3)) == [7, 7, 7]",
    "it = iter([1, 2, 3])\nassert first(it) == 1 and list(it) == [2, 3]",
    "assert first(upto(3)) == 0",
    "assert digits(6000) == 10**6000 and digits(6000) % 7 == 10**6000 % 7",
    "import numpy as np\nm = mean(np.ones((3, 2), 'f4'))\n"
    "assert m.shape == (2,) and m.dtype == 'f4' and (m == 1).all()",
    "import numpy as np\na = np.ones(2)\nscale(a, by=3)\nassert a.tolist() == [3, 3]",
    "from collections import deque\nd = deque([1, 2])\nrotate(d)\nassert list(d) == [2, 1]",
    "b = bytearray(b'a')\nstamp(b)\nassert b == b'a\\x01'",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
    "    assert list(pool.map(double, range(200))) == [2 * n for n in range(200)]",
    "import random\nfor n in random.sample(range(9), 5):\n    assert double(n) == 2 * n",
]
FALSE_TESTS = [
    "assert double(2) == 5",
    "assert double(2)",
    "missing(1)",
    "double()",
    "xs = [3, 1]\norder(xs)\nassert xs == [3, 1]",
    "assert Stack() == []",
]


def test_honest_programs_pass_what_is_true_and_nothing_else(backend: str) -> None:
    tests = tuple(("test", each) for each in TRUE_TESTS + FALSE_TESTS)
    (done,) = sandbox.run(HONEST, [sandbox.Case("", tests)])
    assert done.end == "ok"
    wrong = [each for (_, each), passed in zip(tests, done.passed, strict=True) if not passed]
    assert wrong == [each for each in FALSE_TESTS if each != "assert double(2)"]


def test_what_has_to_work_first_fails_all_that_follows(backend: str) -> None:
    tests = (("test", "assert f(1)"), ("setup", "unknown()"), ("test", "assert f(1)"))
    (done,) = sandbox.run("def f(x): return x", [sandbox.Case("", tests)])
    assert done.passed == (True, False, False)


def test_a_function_may_have_the_name_of_a_builtin(backend: str) -> None:
    tests = (("test", "assert sum(1, 2) == 3"),)
    (done,) = sandbox.run("def sum(a, b): return a + b", [sandbox.Case("", tests)])
    assert done.passed == (True,)


def test_what_tests_cannot_hand_over_is_a_fault_of_the_row(made: ModuleType) -> None:
    tests = "class Node:\n    pass\nassert f(Node()) == 1"
    with pytest.raises(ValueError, match="give the program a Node, which is not a plain value"):
        score(made, "def f(x): return 1", test_code=tests)


@pytest.fixture
def crowded() -> Iterator[Callable[[int], None]]:
    """Returns how to have others use the one processor that is left to this process."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others: list[subprocess.Popen[bytes]] = []

    def crowd(count: int) -> None:
        busy = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
        # Each in a session of its own, as the kernel shares out processors by sessions first.
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "start_new_session": True}
        others.extend(subprocess.Popen(busy, **options) for _ in range(count))
        for each in others:
            assert each.stdout is not None
            each.stdout.readline()

    yield crowd
    for each in others:
        each.kill()
        each.communicate()
    os.sched_setaffinity(0, before)


def test_a_busy_machine_is_no_fault_of_a_program(crowded: Callable[[int], None]) -> None:
    crowded(3)
    code = "import time\nwhile time.process_time() < 0.25: pass"
    assert end_of(code, cpu_s=0.4, wall_s=20.0).end == "ok"
    with pytest.raises(RuntimeError, match="this machine is too busy"):
        end_of(code, cpu_s=0.4, wall_s=0.3)


def test_replaced_builtins_touch_no_verdict(made: ModuleType) -> None:
    code = "import builtins\nbuiltins.repr = lambda x: '0'\ndef f(x): return x"
    assert score(made, code, test_code="assert f(2) == 2") == 1.0


def test_the_forms_of_known_datasets(made: ModuleType) -> None:
    check = "METADATA = {}\n\ndef check(candidate):\n    assert candidate(2) == 4\n"
    human_eval = {"test_code": check, "entry_point": "double"}
    mbpp = {"test_code": ["assert double(2) == 4", "assert double([1]) == [1, 1]"]}
    for row in (human_eval, mbpp):
        assert score(made, "def double(x): return 2 * x", **row) == 1.0
        assert score(made, "def double(x): return x * x if x == 2 else 0", **mbpp) == 0.0
    assert score(made, "def double(x): return 5", **human_eval) == 0.0


HELPER = """
import math
def poly(xs: list, x: float):
    return sum(c * math.pow(x, i) for i, c in enumerate(xs))
def find_zero(xs: list):
    '''Return where the polynomial is zero.'''
"""
CALLS_HELPER = "def check(candidate):\n    assert abs(poly([6, 3], candidate([6, 3]))) < 1e-4\n"


def test_a_helper_of_the_tests_is_not_the_program_s(made: ModuleType) -> None:
    row = {"test_code": CALLS_HELPER, "entry_point": "find_zero"}
    forged = "def poly(*a): return 0\ndef find_zero(xs): return 1"
    right = "def find_zero(xs): return -xs[0] / xs[1]"
    for code in (forged, right):
        with pytest.raises(ValueError, match="uses poly, which the program would answer for"):
            score(made, code, **row)
    assert score(made, forged, **row, test_setup=HELPER) == 0.0
    assert score(made, right, **row, test_setup=HELPER) == 1.0
    with pytest.raises(ValueError, match="test_setup is not valid Python"):
        score(made, right, **row, test_setup="def f(")


@pytest.mark.parametrize(
    ("test_code", "entry_point"),
    [
        ("import numpy as np\ndef check(f):\n    assert np.isclose(f(1), 2)", "f"),
        ("def check(f):\n    xs = [g for g in 'ab']\n    assert math.sqrt(f(1)) == len(xs)", "f"),
        ("def check(f):\n    assert f(1) == 2", "Solution().f"),
        ("N = 3\ndef help(n):\n    return n + N\ndef check(f):\n    assert f(1) == help(2)", "f"),
    ],
)  # fmt: skip
def test_what_tests_have_themselves_needs_no_setup(test_code: str, entry_point: str) -> None:
    assert sandbox.read_tests(test_code, entry_point)[-1][0] == "test"


PROGRAM = "```{0}\nx = 1\n```\n".format
FENCES = {
    "after another language": "```json\n{}\n```\nSo:\n\n" + PROGRAM("python"),
    "after a shell": "```bash\npip install x\n```\n" + PROGRAM("Python"),
    "before its output": PROGRAM("python") + "It prints\n```\n2\n```\n",
    "before other text": PROGRAM("python3") + "```text\n2\n```\n",
    "of no language": PROGRAM(""),
    "after another program": "```python\nx = 0\n```\n" + PROGRAM("py"),
    "with a title": PROGRAM('python title="a"'),
    "of more ticks": "````python\nx = 1\n````",
    "in a list": "1. So:\n   ```python\n   x = 1\n   ```\n",
    "after code in a line": "```x = 0```\n" + PROGRAM("python"),
    "after what does not end": PROGRAM("python") + "```python\nx = 0\n",
}


@pytest.mark.parametrize("text", FENCES.values(), ids=FENCES)
def test_finds_the_program(text: str) -> None:
    assert sandbox.extract_code(text) == "x = 1\n"
    assert sandbox.extract_code(text.replace("\n", "\r\n")) in ("x = 1\r\n", "x = 1\n")


@pytest.mark.parametrize(
    "text", ["```json\n{}\n```", "```python\nx = 1", "x = 1", "```", "``\nx\n``"]
)
def test_finds_no_program(text: str) -> None:
    assert sandbox.extract_code(text) is None


def test_no_completion_takes_long_to_read() -> None:
    for text in ("```" + " " * 10**6 + "x", "```\n" * 10**5, "`" * 10**6, " " * 10**6):
        sandbox.extract_code(text)


def test_which_tests_count() -> None:
    check = "def check(g):\n    assert g(1) == 2\ncheck(f)"
    rows = {
        "import math\nmath.floor(1)\nassert f(1) == 2\nassert 4 == f(2)": 2,
        check: 1,
        f"{check}\nassert f(2) == g(2)": 1,
        "assert f(1)\nassert not f(0), 'zero'": 2,
        "for n in range(3):\n    assert f(n) == n": 1,
        "with open('x'):\n    assert f(1) == 2 == f(2)": 1,
    }
    for text, count in rows.items():
        kinds = [kind for kind, _ in sandbox.read_tests(text)]
        assert kinds.count("test") == count, text
    for text in ("", "x = 1", "def check(g):\n    assert g(1)", "assert (", "\0", None, [1]):
        with pytest.raises(ValueError, match="test_code"):
            sandbox.read_tests(text)


@pytest.mark.slow
def test_verify_says_what_could_not_be_run(
    scaffold: Callable[..., Any], project: Path, made: ModuleType
) -> None:
    done = scaffold(project, "add-reward", "unlocked", "--style=code")
    assert done.status == 0, done.text
    path = project / "my_rl" / "reward" / "unlocked.py"
    text = path.read_text().replace("from areal.", "import areal.sandbox\nfrom areal.", 1)
    path.write_text(text + "\n\nareal.sandbox.BACKENDS = ()\n")
    done = scaffold(project, "verify", "unlocked", "--json")
    assert done.report["verdict"] == "unproven", done.text
    levels = {row["level"]: row for row in done.report["units"][0]["levels"]}
    assert levels["tests"]["status"] == levels["episodes"]["status"] == "skipped"
    assert "every test was skipped: no backend is left" in levels["tests"]["reason"]
    assert "code is not run" in levels["episodes"]["reason"]


# --- the grader ---------------------------------------------------------------------------------


def test_nothing_runs_where_nothing_locks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    with pytest.raises(RuntimeError, match=r"code is not run.*allow_unsandboxed=True"):
        sandbox.run("print(1)", [sandbox.Case()])
    (done,) = sandbox.run("print(1)", [sandbox.Case()], allow_unsandboxed=True)
    assert done == ("ok", "1\n", ())
    (done,) = sandbox.run(
        "import os\nos.makedirs('a/b/c')\nos.fork()", [sandbox.Case()], allow_unsandboxed=True
    )
    assert done.end == "status 1"  # the limits and the filter hold as far as there are any
    sandbox.find_backend.cache_clear()


def test_a_sandbox_that_does_not_hold_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "none", "unknown")
    found, reasons = sandbox.find_backend()
    assert found == ""
    assert "none: it does not hold" in reasons
    sandbox.find_backend.cache_clear()


def test_landlock_serves_where_namespaces_are_forbidden() -> None:
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    tried = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid], capture_output=True, check=False)
    use_of_landlock = ctypes.CDLL(None).syscall(444, None, ctypes.c_long(0), ctypes.c_long(1))
    if tried.returncode or use_of_landlock < 1:
        pytest.skip("namespaces cannot be forbidden here, or Landlock is not there")
    script = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("sandbox", {str(SANDBOX)!r})
sandbox = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sandbox)
print(*sandbox.find_backend())
"""
    argv = ["unshare", "-Ur", "sh", "-c", f'{forbid}; exec "$@"', "sh"]
    found = subprocess.run(
        [*argv, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("landlock namespaces: OSError: [Errno 28] unshare")


def test_signals_that_the_grader_ignores_or_blocks_are_its_own(backend: str) -> None:
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        code = "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
        assert end_of(code) == ("ok", "set()\n", ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, old)


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        sandbox._filter_program("riscv64")


@pytest.mark.parametrize(
    ("column", "header", "pattern"),
    [
        (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"__NR_(\w+)\s+(\d+)"),
        (1, "/usr/include/asm-generic/unistd.h", r"__NR(?:3264)?_(\w+)\s+(\d+)"),
    ],
)
def test_numbers_are_those_of_the_kernel(column: int, header: str, pattern: str) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(header).read_text()
    known = {int(number): name for name, number in re.findall(pattern, text)}
    tables = (sandbox.CALLS, sandbox.CHECKED_CALLS, sandbox.OPEN_CALLS)
    for row in re.split("[\n;]", "\n".join(table.strip() for table in tables)):
        name, *numbers = row.split()
        number = numbers[column]
        assert number == "-" or known[int(number)] in (name, name.removeprefix("new"))


def descendants(pid: int) -> dict[int, str]:
    """Returns every process below one, with its state."""
    rows: dict[int, tuple[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            rows[int(stat.parent.name)] = int(parent), state
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        above = todo.pop()
        below = {each: state for each, (parent, state) in rows.items() if parent == above}
        found |= below
        todo += below
    return found


def wait_until(is_true: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    stop_at = time.monotonic() + timeout_s
    while time.monotonic() < stop_at:
        if is_true():
            return True
        time.sleep(0.01)
    return False


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_killed_grader_leaves_no_process_and_no_folder(backend: str, tmp_path: Path) -> None:
    script = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("sandbox", {str(SANDBOX)!r})
sandbox = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sandbox)
sandbox.BACKENDS = ({backend!r},)
sandbox.find_backend()
print("probed", flush=True)
limits = sandbox.Limits(wall_s=60, total_wall_s=60)
sandbox.run("import time; time.sleep(60)", [sandbox.Case()], limits)
"""
    grader = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert grader.stdout is not None
    with grader, grader.stdout:
        assert grader.stdout.readline() == b"probed\n"
        count = {"namespaces": 3, "landlock": 2}[backend]
        assert wait_until(lambda: len(descendants(grader.pid)) == count)
        assert wait_until(lambda: len(list(tmp_path.iterdir())) == 1)
        left = descendants(grader.pid)
        grader.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_alive, left)))
    assert wait_until(lambda: not list(tmp_path.iterdir()))


@pytest.mark.parametrize("style", ["test_cases", "test_code"])
def test_a_broken_sandbox_is_an_error_and_no_zero(
    backend: str, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    monkeypatch.setattr(sandbox, "_readable", lambda: (["/no/such/folder"], []))
    tests = (("value", "1"),) if style == "test_code" else ()
    if backend == "landlock":  # where a folder that is not there cannot be read anyway
        monkeypatch.setattr(sandbox, "__file__", "/no/such/file.py")
    with pytest.raises(RuntimeError):
        sandbox.run("print(1)", [sandbox.Case("", tests)])


# --- the reward in the pool ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(scaffold: Callable[..., Any], project: Path) -> Iterator[ModuleType]:
    """Makes a reward of asserts in a project and imports it as the pool will."""
    done = scaffold(project, "add-reward", "tried", "--style=code", "--test-form=asserts")
    assert done.status == 0, done.text
    sys.path.insert(0, str(project))
    try:
        yield importlib.import_module("my_rl.reward.tried")
    finally:
        sys.path.remove(str(project))
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_rl"]:
            del sys.modules[name]


def score(made: ModuleType, code: str, **row: Any) -> float:
    return made.tried_reward_fn("", f"```python\n{code}\n```", [], [], **row)


def test_the_reward_works_in_the_pool_and_leaves_nothing(made: ModuleType) -> None:
    from areal.api import AsyncRewardWrapper

    before = set(descendants(os.getpid()))
    patient = AsyncRewardWrapper(made.tried_reward_fn, max_workers=2, max_retries=0)
    hasty = AsyncRewardWrapper(
        made.tried_reward_fn, timeout_seconds=1.0, max_workers=2, max_retries=0
    )

    async def main() -> list[float]:
        calls = [
            wrapper("", f"```\n{text}\n```", [], [], test_code="assert f(2) == 4")
            for wrapper, text in [
                (patient, "def f(x): return x + x"),
                (patient, "def f(x): return x"),
                (hasty, "import time; time.sleep(60)"),
            ]
        ]
        return await asyncio.gather(*calls)

    try:
        assert asyncio.run(main()) == [1.0, 0.0, 0.0]
    finally:
        AsyncRewardWrapper.shutdown()
    left = set(descendants(os.getpid())) - before
    assert wait_until(lambda: not any(map(is_alive, left)))


def test_a_grader_with_threads_may_run_programs(backend: str) -> None:
    ends: list[str] = []
    threads = [
        threading.Thread(target=lambda: ends.append(end_of("print(1)").output)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == ["1\n"] * 4


def test_a_machine_with_landlock_runs_programs() -> None:
    version = ctypes.CDLL(None).syscall(444, None, ctypes.c_long(0), ctypes.c_long(1))
    if version < 1 or os.uname().machine not in sandbox.MACHINES:
        pytest.skip("this machine has no Landlock, or its system calls are not known")
    sandbox.find_backend.cache_clear()
    assert sandbox.find_backend()[0] in ALL_BACKENDS
