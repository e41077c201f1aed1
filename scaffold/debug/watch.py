"""Watches a job as it runs, until it ends or one of its ranks waits in vain."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from scaffold.debug import processes, stacks
from scaffold.debug.diagnosis import (
    TERMINATED,
    Snapshot,
    Verdict,
    diagnose,
    end_of,
    failing_ranks,
    is_definite,
)
from scaffold.debug.flight_recorder import add_native_calls, ask_flights
from scaffold.debug.records import Process, Records
from scaffold.debug.wait_graph import waits
from scaffold.errors import RequestError

RECORD = "SCAFFOLD_DEBUG_RECORD"
OPTIONS = "SCAFFOLD_DEBUG_OPTIONS"
POLL_S = 0.2
CERTAIN_S = 3.0
"""How long ranks wait where it is certain that it is in vain; shorter than any timeout."""

BROUGHT = Path(__file__).parents[1] / "runners" / "rank_recorder" / "startup"
"""The folder that is put before the others on PYTHONPATH."""


@dataclass(frozen=True)
class WatchOptions:
    """The limits of a watch.

    Args:
        folder: Where its processes record; it is empty.
        timeout_s: How long a rank may be in one call.
        options: What else the ranks record, as JSON for them.
        quiet: Whether the job's output goes to the error stream.
        root: Where the job runs; its `.venv` may have the program.
    """

    argv: tuple[str, ...]
    folder: Path
    timeout_s: float
    options: str = "{}"
    quiet: bool = False
    root: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True)
class WatchResult:
    """The end of a job: its last moment, the verdict, and how long it ran."""

    snapshot: Snapshot
    verdict: Verdict | None
    took_s: float


def watch(how: WatchOptions) -> WatchResult:
    """Run a job to its end, or end it where ranks wait in vain, and return the verdict.

    Raises:
        RequestError: The program was not found, or cannot be started.
    """
    begun = time.monotonic()
    job = _start(how)
    # SIGTERM ends the watch as Ctrl-C does, so that the job is ended too.
    restored = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        snapshot = _follow(job, how)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the job is ended, whoever is impatient
        mark = (RECORD, str(how.folder))
        if job.poll() is None:
            processes.end_job(job, mark)
        else:
            processes.end_left(mark)
        signal.signal(signal.SIGTERM, restored)
    snapshot = replace(snapshot, stacks={**_last_stacks(snapshot, how.folder), **snapshot.stacks})
    add_native_calls(snapshot.job, how.folder, snapshot.stacks)
    stacks.save(how.folder, snapshot.stacks)
    return WatchResult(snapshot, diagnose(snapshot), time.monotonic() - begun)


def _last_stacks(snapshot: Snapshot, folder: Path) -> dict[int, tuple[stacks.Stack, ...]]:
    ended = [process for process in snapshot.job.ranks.values() if process.status == TERMINATED]
    return {each.pid: found for each in ended if (found := stacks.last_stacks(folder, each))}


def _start(how: WatchOptions) -> subprocess.Popen[bytes]:
    program = find_program(how.argv[0], how.root)
    env = watched_environment(dict(os.environ), how)
    try:
        return processes.start([program, *how.argv[1:]], env, how.root, quiet=how.quiet)
    except OSError as error:
        raise RequestError(
            f"{how.argv[0]} cannot be started: {error.strerror}",
            code="program_missing",
            hint="give a program that is on the PATH, after --",
        ) from error


def find_program(name: str, root: Path) -> str:
    """Return the path of a program: as the shell finds it, else in the `.venv` of the folder.

    Raises:
        RequestError: There is none.
    """
    # A path is relative to the folder of the job, and a bare name to PATH.
    beside = str(root / name) if os.sep in name else name
    found = shutil.which(beside) or shutil.which(name, path=str(root / ".venv" / "bin"))
    if found is None:
        raise RequestError(
            f"there is no program {name!r} on PATH or in {root / '.venv'}",
            code="program_missing",
            hint="activate the environment of the job, or give the program's path, after --",
        )
    return found


def watched_environment(env: dict[str, str], how: WatchOptions) -> dict[str, str]:
    """Return an environment that brings the recorder into each Python that has it."""
    # An empty entry on PYTHONPATH would mean the working folder.
    path = [str(BROUGHT), *filter(None, [env.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(path)
    env[RECORD] = str(how.folder)
    env[OPTIONS] = how.options
    env.setdefault("TORCH_FR_BUFFER_SIZE", "2000")  # torch's recorder sees what C++ issues
    return env


def _follow(job: subprocess.Popen[bytes], how: WatchOptions) -> Snapshot:
    records = Records(how.folder)
    snapshot = Snapshot(records.job(), frozenset())
    early: dict[int, tuple[stacks.Stack, ...]] = {}
    try:
        while True:
            status = job.poll()
            records.update()
            snapshot = _now(records, status, early)
            if status is not None:
                return snapshot
            if not early and _has_trouble(snapshot):  # a launcher is about to end those who wait
                early = ask(snapshot, how.folder)
            if _is_stuck(snapshot, records, how):
                asked = {**early, **ask(snapshot, how.folder)}
                return replace(_now(records, None, asked), alive=snapshot.alive)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        records.update()
        snapshot = _now(records, job.poll(), early)
        return replace(snapshot, stacks={**early, **ask(snapshot, how.folder)}, interrupted=True)


def _now(
    records: Records, status: int | None, asked: dict[int, tuple[stacks.Stack, ...]]
) -> Snapshot:
    job = records.job()
    alive = {rank for rank, process in job.ranks.items() if processes.is_alive(process)}
    return Snapshot(job, frozenset(alive), asked, time.time(), status)


def _has_trouble(snapshot: Snapshot) -> bool:
    return any(
        process.failure is not None
        or any(call.state == "failed" for call in process.calls[-1:])
        or (rank not in snapshot.alive and process.ended_s is None)
        for rank, process in snapshot.job.ranks.items()
    )


def _is_stuck(snapshot: Snapshot, records: Records, how: WatchOptions) -> bool:
    """Return whether a rank has been in one call for too long, or waits certainly in vain."""
    if _goes_on_without(snapshot, how.timeout_s):
        return True
    since = [
        wait.call.since_s for rank, wait in waits(snapshot.job).items() if rank in snapshot.alive
    ]
    if not since:
        return _waits_in_native(snapshot, records, how)
    longest = snapshot.now_s - min(since)
    if longest >= how.timeout_s:
        return True
    # The records of ranks arrive one after another; a short delay is no hang.
    return longest >= min(CERTAIN_S, how.timeout_s) and is_definite(snapshot)


def _goes_on_without(snapshot: Snapshot, timeout_s: float) -> bool:
    """Return whether a rank failed so long ago that its launcher would have ended the others."""
    failed = [snapshot.job.ranks[rank] for rank in failing_ranks(snapshot)]
    return any(snapshot.now_s - end_of(process) >= timeout_s for process in failed)


def _waits_in_native(snapshot: Snapshot, records: Records, how: WatchOptions) -> bool:
    """Return whether a rank waits in a call that C++ makes; only asked when all are quiet."""
    has_lost = any(rank not in snapshot.alive for rank in snapshot.job.ranks)
    patience_s = min(CERTAIN_S, how.timeout_s) if has_lost else how.timeout_s
    joined = [
        process
        for rank, process in snapshot.job.ranks.items()
        if rank in snapshot.alive and process.joined is not None and not process.left
    ]
    if not joined or snapshot.now_s - max(records.newest_s, records.asked_s) < patience_s:
        return False
    # Asking costs each rank time, so it is not done again before the next quiet span.
    records.asked_s = snapshot.now_s
    ask_flights(how.folder, joined)
    add_native_calls(snapshot.job, how.folder, {})
    since = [
        wait.call.since_s for rank, wait in waits(snapshot.job).items() if rank in snapshot.alive
    ]
    return bool(since) and snapshot.now_s - min(since) >= patience_s


def ask(snapshot: Snapshot, folder: Path) -> dict[int, tuple[stacks.Stack, ...]]:
    """Return the stacks of the processes that are alive, and let torch write its record."""
    asked: list[Process] = [snapshot.job.ranks[rank] for rank in sorted(snapshot.alive)]
    asked += [each for each in snapshot.job.others if processes.is_alive(each)]
    ask_flights(folder, asked)
    return stacks.ask_stacks(folder, asked)
