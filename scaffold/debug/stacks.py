"""Asks stuck processes where they are, by faulthandler or py-spy, and finds what they wait in."""

from __future__ import annotations

import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scaffold.analysis.process import run_text
from scaffold.debug.records import Place, Process

ANSWER_S = 2.0
"""How long processes have for their answers; the C code that answers needs milliseconds."""

# faulthandler: `Thread 0x00007f0a [name] (most recent call first):`, `  File "a.py", line 3 in f`.
_THREAD = re.compile(
    r"^(Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):"
)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
# py-spy: `Thread 1234 (idle): "MainThread"`, `    wait (threading.py:320)`.
_SPY_THREAD = re.compile(r"^Thread (\S+) \((\w[\w +]*)\)(?:: \"(.*)\")?")
_SPY_FRAME = re.compile(r"^    (\S.*) \((.*?)(?::(\d+))?\)$")

COMMUNICATING = frozenset({"collective", "sharding", "backward", "handle", "device"})
"""The kinds in which a rank waits for others. On an accelerator a collective returns at once, and
the line that waits for the device takes its place."""

_GROUPS = r"torch/distributed/(distributed_c10d|_functional_collectives)\.py"
_SHARDING = r"torch/distributed/(fsdp|tensor|_composable|pipelining|utils).*"
_FILES = r"torch/serialization\.py|torch/distributed/checkpoint/.*"
# Kind, end of the file's name, function, and what is said of it; "" for the function's own name.
_LIBRARY = (
    ("file", _FILES, "", "in a checkpoint that is read or written"),
    ("collective", _GROUPS, "[a-z]", ""),
    ("sharding", _SHARDING, "", ""),
    ("sharding", r"torch/nn/parallel/distributed\.py", "_(sync|verify|ddp_init)", ""),
    ("backward", r"torch/autograd/(graph|__init__)\.py", "", "backward, where DDP and FSDP reduce"),
    ("device", r"torch/(cuda|accelerator|npu)/.*", "synchronize|wait", "a wait for the device"),
    ("data", r"torch/utils/data/.*", "", "waiting for rows of a DataLoader"),
    ("compile", r"torch/(_dynamo|_inductor)/.*", "", "in torch.compile"),
)
# The program's own line, where C++ waits without a frame of Python.
_LINES = (
    ("handle", re.compile(r"\.wait\("), "wait for an asynchronous collective"),
    ("device", re.compile(r"\.(item|cpu|tolist|synchronize|numpy)\("), "a wait for the device"),
)


@dataclass(frozen=True)
class Stack:
    """The stack of one thread, the innermost frame first.

    Args:
        thread: Its name or number.
        is_main: Whether it is the one that the program began in.
        frames: Its frames in Python (with py-spy also those of C), without the recorder's own.
    """

    thread: str
    is_main: bool
    frames: tuple[Place, ...]


def ask_stacks(folder: Path, processes: Sequence[Process]) -> dict[int, tuple[Stack, ...]]:
    """Return the stacks of each process that answers, by its pid."""
    # faulthandler appends to its file, so what is new begins at the old size.
    sizes = {each.pid: _size(_file(folder, each)) for each in processes}
    for process in processes:
        if process.signal is not None:
            with suppress(OSError):  # it has ended meanwhile
                os.kill(process.pid, process.signal)
    _wait_for_answers(folder, processes, sizes)
    found: dict[int, tuple[Stack, ...]] = {}
    for process in processes:
        text = _answer(_file(folder, process), sizes[process.pid])
        stacks = parse_faulthandler(text) or spy(process.pid)[0]
        if stacks:
            found[process.pid] = stacks
    return found


def last_stacks(folder: Path, process: Process) -> tuple[Stack, ...]:
    """Return the stacks that a process wrote when SIGTERM ended it; none where it did not."""
    return parse_faulthandler(_answer(folder / f"{process.pid}.end.txt", 0))


def _wait_for_answers(folder: Path, processes: Sequence[Process], sizes: dict[int, int]) -> None:
    until = time.monotonic() + ANSWER_S
    seen: list[int] = []
    while time.monotonic() < until:
        time.sleep(0.1)
        now = [_size(_file(folder, each)) for each in processes]
        answered = all(size > sizes[each.pid] for size, each in zip(now, processes, strict=True))
        # A file that still grows is an answer that is being written.
        if answered and now == seen:
            return
        seen = now


def parse_faulthandler(text: str) -> tuple[Stack, ...]:
    """Return the stacks in what faulthandler wrote, last dump only."""
    rows: list[tuple[str, bool, list[Place]]] = []
    for line in text.splitlines():
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread:
            rows.append((thread[3] or thread[2], thread[1].startswith("Current"), []))
        elif frame and rows:
            rows[-1][2].append(Place(frame[1], int(frame[2]), frame[3]))
    # The signal may reach any thread; the main thread comes last.
    current = [at for at, row in enumerate(rows) if row[1] and not _is_answering(row[2])]
    main = current[-1] if current else len(rows) - 1
    stacks = [Stack(row[0], at == main, _without_own(row[2])) for at, row in enumerate(rows)]
    kept = [each for each, row in zip(stacks, rows, strict=True) if not _is_answering(row[2])]
    return tuple(sorted(kept, key=lambda each: not each.is_main))


def spy(pid: int) -> tuple[tuple[Stack, ...], str]:
    """Return the stacks that py-spy sees from outside, and why it sees none."""
    # The scaffold of an environment that is not active has the py-spy of that environment.
    program = shutil.which("py-spy") or shutil.which(
        "py-spy", path=str(Path(sys.executable).parent)
    )
    if program is None:
        return (), "py-spy is not on PATH"
    # --nonblocking: a job under watch must not be paused.
    argv = [program, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)]
    try:
        done = run_text(argv, None, 20)
    except (OSError, subprocess.SubprocessError) as error:
        return (), f"py-spy does not answer: {error}"
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"py-spy ended with {done.returncode}"]
        return (), said[-1].strip()
    return parse_spy(done.stdout, pid), "py-spy saw no thread of Python"


def parse_spy(text: str, pid: int) -> tuple[Stack, ...]:
    """Return the stacks in what py-spy wrote."""
    rows: list[tuple[str, bool, list[Place]]] = []
    for line in text.splitlines():
        thread, frame = _SPY_THREAD.match(line), _SPY_FRAME.match(line)
        if thread:
            # On Linux the main thread has the number of the process.
            rows.append((thread[3] or thread[1], thread[1] == str(pid), []))
        elif frame and rows:
            rows[-1][2].append(Place(frame[2], int(frame[3] or 0), frame[1]))
    stacks = [Stack(name, is_main, _without_own(frames)) for name, is_main, frames in rows]
    return tuple(sorted(stacks, key=lambda each: not each.is_main))


def to_json(stacks: Sequence[Stack]) -> list[dict[str, object]]:
    return [
        {"thread": each.thread, "main": each.is_main, "frames": [list(row) for row in each.frames]}
        for each in stacks
    ]


def own_frames(frames: Sequence[Place]) -> tuple[Place, ...]:
    """Return the frames of the program itself: not those of installed packages and of Python."""

    def is_installed(file: str) -> bool:
        parts = Path(file).parts
        in_library = any(part.startswith("python3") for part in parts) and "lib" in parts
        return in_library or "site-packages" in parts or file.startswith("<frozen")

    return tuple(each for each in frames if not is_installed(each.file))


def _is_answering(frames: Sequence[Place]) -> bool:
    return any(each.file.endswith("rank_recorder/answering.py") for each in frames)


def _without_own(frames: Sequence[Place]) -> tuple[Place, ...]:
    return tuple(each for each in frames if "/rank_recorder/" not in each.file)


def _file(folder: Path, process: Process) -> Path:
    return folder / f"{process.pid}.stacks.txt"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _answer(file: Path, start: int) -> str:
    return file.read_bytes()[start:].decode("utf-8", "replace") if file.exists() else ""


def save(folder: Path, stacks: dict[int, tuple[Stack, ...]]) -> None:
    """Save stacks beside the records, so that the report can be made again."""
    rows = {str(pid): to_json(each) for pid, each in stacks.items()}
    (folder / "stacks.json").write_text(json.dumps(rows), encoding="utf-8")


@dataclass(frozen=True)
class Waiting:
    """What a stack is in.

    Args:
        kind: One of the kinds of `_LIBRARY`, "handle", or "" for the program's own code.
        words: What it does, such as "all_reduce".
    """

    kind: str
    words: str
    place: Place


def waiting_in(frames: Sequence[Place]) -> Waiting:
    """Return what a stack is in."""
    own = own_frames(frames)
    place = own[0] if own else next(iter(frames), Place("", 0, ""))
    # What is above the program's own line called it, as launchers and spawners do.
    inner = frames[: frames.index(own[0])] if own else list(frames)
    for kind, file, function, words in _LIBRARY:
        for each in inner:
            if re.search(f"{file}$", each.file) and re.match(function, each.function):
                return Waiting(kind, words or each.function, place)
    if not inner and own:
        line = linecache.getline(place.file, place.line)
        for kind, pattern, words in _LINES:
            if pattern.search(line):
                return Waiting(kind, words, place)
    return Waiting("", f"in {inner[0].function}" if inner else "in its own code", place)
