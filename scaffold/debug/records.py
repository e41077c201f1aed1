"""What the processes of a job recorded about themselves, read from a folder of records."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

SET_UP = "set-up"
"""The group under which joining the job and making groups are recorded."""

POINT_TO_POINT = ("send", "recv", "recv_anysource")


class Place(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str


@dataclass
class Call:
    """One call of a communication, as one process made it.

    Args:
        id: Its number among all calls of the process.
        group: The name of its group, or SET_UP.
        number: Which collective of the group it is, from 1; 0 for point-to-point.
        op: What users call it, such as "all_reduce".
        tensors: Dtype and shape of each tensor, the first few of them.
        options: Reduction, root, and what a set-up call is about.
        at: The lines of the program it comes from, the nearest first; none for C++.
        via: The function of torch.distributed that the program called, where it is another one.
        peer: Of a message, the other rank, as its group numbers it; None for any.
        nth: Of a message, which one it is of those with this peer, tag and direction.
        state: "entering", "issued", "waiting", "done" or "failed".
        since_s: When that state began, on the clock of the machine.
        issued_s: When the call itself returned; the work may go on. 0.0 before that.
        during: The exception that the program was handling when it made the call.
        is_native: Whether C++ made it by itself, so that only torch's flight recorder has it.
    """

    id: int
    group: str
    number: int
    op: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    at: tuple[Place, ...] = ()
    via: str = ""
    peer: int | None = None
    tag: int = 0
    nth: int = 0
    state: str = "entering"
    entered_s: float = 0.0
    since_s: float = 0.0
    issued_s: float = 0.0
    thread: str = ""
    during: str = ""
    during_at: Place | None = None
    is_native: bool = False

    @property
    def is_open(self) -> bool:
        """Whether somebody waits in it."""
        return self.state in ("entering", "waiting")

    @property
    def elements(self) -> tuple[tuple[str, int], ...]:
        """The tensors as all ranks have to agree on them: dtype and number of elements."""
        return tuple((dtype, math.prod(shape)) for dtype, shape in self.tensors)


@dataclass
class Failure:
    """The exception that ended a process."""

    type: str
    message: str
    frames: tuple[Place, ...]
    at_s: float


@dataclass
class Process:
    """The record of one process.

    Args:
        rank: Its rank, or None where it never had one.
        joined: When `init_process_group` returned, or None.
        signal: What makes it write its stacks, or None.
        status: How it ended, as the one who waited for it saw it; negative for a signal.
        status_s: When that one saw it.
    """

    pid: int
    env: dict[str, str] = field(default_factory=dict[str, str])
    signal: int | None = None
    begun_s: float = 0.0
    rank: int | None = None
    world: int | None = None
    joined: float | None = None
    left: bool = False
    groups: dict[str, Group] = field(default_factory=dict[str, "Group"])
    calls: list[Call] = field(default_factory=list[Call])
    failure: Failure | None = None
    ended_s: float | None = None
    status: int | None = None
    status_s: float | None = None
    faults: list[str] = field(default_factory=list[str])

    @property
    def restart(self) -> int:
        """Which start of the job this is, where the launcher starts again what failed."""
        text = self.env.get("TORCHELASTIC_RESTART_COUNT", "0")
        return int(text) if text.isdigit() else 0


@dataclass(frozen=True)
class Group:
    """A process group: its global ranks in their order, and its backend."""

    name: str
    ranks: tuple[int, ...]
    description: str = ""
    backend: str = ""


@dataclass
class Job:
    """The ranks of a job, and its other processes.

    Args:
        world: How many ranks there are to be; 0 where nobody said.
        ranks: The process of each rank that has a record.
        others: Processes without a rank that loaded torch.distributed.
    """

    world: int
    ranks: dict[int, Process]
    others: list[Process]

    def group(self, name: str) -> Group:
        """Return a group as whoever is in it recorded it."""
        for process in self.ranks.values():
            found = process.groups.get(name)
            if found is not None and found.ranks:
                return found
        # torch calls the default group by either name, and all ranks are in it.
        is_default = name.partition("@")[0] in (SET_UP, "0", "default_pg")
        return Group(name, tuple(range(self.world)) if is_default else ())

    @property
    def missing(self) -> list[int]:
        """The ranks that have no record here."""
        return [rank for rank in range(self.world) if rank not in self.ranks]


def read_job(folder: Path) -> Job:
    """Return what the processes of a job recorded; of several starts, the last."""
    records = Records(folder)
    records.update()
    return records.job()


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of a record; a last one that was interrupted is left out."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError:
        return []
    return [row for line in lines if (row := _as_dict(line)) is not None]


class Records:
    """A folder of records that is read as it grows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[int, Process] = {}
        self.newest_s = 0.0
        """When a process last recorded anything."""
        self.asked_s = 0.0
        """When the processes were last asked for what only torch has seen."""
        self._read: dict[Path, int] = {}
        self._calls: dict[int, dict[int, Call]] = {}
        self._ends: dict[int, tuple[int, float]] = {}

    def update(self) -> None:
        for head in sorted(self.folder.glob("*.head.jsonl")):
            pid = int(head.name.partition(".")[0])
            for row in self._new_rows(head):
                self._take(pid, row)
            segments = [self.folder / f"{pid}.calls.{each}.jsonl" for each in (0, 1)]
            rows = [row for segment in segments for row in self._new_rows(segment) if "e" in row]
            # Two segments are written in turn, so either may hold the earlier rows.
            for row in sorted(rows, key=itemgetter("t")):
                _step(self._calls.setdefault(pid, {}), row)

    def job(self) -> Job:
        """Return the job as far as it was read."""
        for pid, process in self.processes.items():
            process.calls = list(self._calls.get(pid, {}).values())
            process.status, process.status_s = self._ends.get(pid, (None, None))
        return _as_job(list(self.processes.values()))

    def _new_rows(self, file: Path) -> list[dict[str, Any]]:
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, 2)
                at = self._read.get(file, 0)
                # A file that is shorter than before was restarted.
                stream.seek(at if at <= size else 0)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]  # a line that is being written comes next time
        self._read[file] = (at if at <= size else 0) + len(whole)
        rows = [
            row
            for line in whole.split(b"\n")
            if (row := _as_dict(line))
            and "t" in row
            and ("kind" in row or {"e", "i"} <= row.keys())
        ]
        self.newest_s = max([self.newest_s, *(row["t"] for row in rows)])
        return rows

    def _take(self, pid: int, row: dict[str, Any]) -> None:
        if row.get("kind") == "process":
            self.processes[pid] = _new_process(row)
        elif row.get("kind") == "child":
            self._ends[row["pid"]] = (row["status"], row["t"])
        elif pid in self.processes:
            _take(self.processes[pid], row)


def _as_dict(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", row) if isinstance(row, dict) else None


def _as_job(processes: list[Process]) -> Job:
    ranked = [process for process in processes if process.rank is not None]
    last = max((process.restart for process in ranked), default=0)
    ranks: dict[int, Process] = {}
    others = [process for process in processes if process.rank is None]
    for process in sorted(ranked, key=_claim):
        assert process.rank is not None
        # torchrun starts all ranks again after a failure: earlier starts are history.
        if process.restart == last and process.rank not in ranks:
            ranks[process.rank] = process
        # Children of a rank inherit its RANK; only one process is the rank itself.
        elif process.restart == last:
            others.append(process)
    worlds = [process.world for process in ranks.values() if process.world]
    return Job(max(worlds, default=0), dict(sorted(ranks.items())), others)


def _claim(process: Process) -> tuple[int, bool, float]:
    """Sort processes of one rank: those that joined the job, then the earliest."""
    assert process.rank is not None
    joins = process.joined is not None or any(call.group == SET_UP for call in process.calls)
    return process.rank, not joins, process.begun_s


def _new_process(row: dict[str, Any]) -> Process:
    env: dict[str, str] = row.get("env", {})
    process = Process(row["pid"], env, row.get("signal"), row["t"])
    if env.get("RANK", "").isdigit():
        process.rank = int(env["RANK"])
        process.world = int(env["WORLD_SIZE"]) if env.get("WORLD_SIZE", "").isdigit() else None
    return process


def _take(process: Process, row: dict[str, Any]) -> None:
    kind = row.get("kind")
    if kind in ("joining", "joined") and row["rank"] >= 0:
        process.rank = row["rank"]
        process.world = row["world"] if row["world"] > 0 else process.world
        process.joined = row["t"] if kind == "joined" else process.joined
    elif kind == "left":
        process.left = True
    elif kind == "group":
        group = Group(row["group"], tuple(row["ranks"]), row["description"], row["backend"])
        process.groups[group.name] = group
    elif kind == "exception":
        frames = tuple(Place(*each) for each in row["frames"])
        process.failure = Failure(row["type"], row["message"], frames, row["t"])
    elif kind == "end":
        process.ended_s = row["t"]
    elif kind == "fault":
        process.faults.append(f"{row['where']}: {row['error']}")


MAX_CALLS = 2_000
"""How many calls of a process are kept: those before were in step, or had long been found."""


# The recorder's marks of a call's steps.
_STATES = {"-": "issued", "w": "waiting", "W": "done", "x": "failed"}


def _step(calls: dict[int, Call], row: dict[str, Any]) -> None:
    if row["e"] == "+":
        calls[row["i"]] = _new_call(row)
        if len(calls) > 2 * MAX_CALLS:
            # In batches, as dropping one call at a time would copy the keys for each.
            for old in list(calls)[:MAX_CALLS]:
                del calls[old]
        return
    call = calls.get(row["i"])
    if call is None:  # its beginning stood in a segment that was restarted
        return
    call.state, call.since_s = _STATES[row["e"]], row["t"]
    # The first step behind the entry is when the backend got the call.
    call.issued_s = call.issued_s or row["t"]


def _new_call(row: dict[str, Any]) -> Call:
    options = {key: row[key] for key in ("red", "root") if key in row}
    return Call(
        id=row["i"],
        group=row["g"],
        number=row.get("n", 0),
        op=row["op"],
        tensors=tuple((dtype, tuple(shape)) for dtype, shape in row["in"]),
        options={**options, **row.get("set", {})},
        at=tuple(Place(*each) for each in row.get("at", ())),
        via=row.get("via", ""),
        peer=row.get("peer"),
        tag=row.get("tag", 0),
        nth=row.get("k", 0),
        entered_s=row["t"],
        since_s=row["t"],
        thread=row.get("th", ""),
        during=row.get("exc", ""),
        during_at=Place(*row["exc_at"]) if row.get("exc_at") else None,
    )
