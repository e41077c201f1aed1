"""Watches a job as it runs, until it ends or one of its ranks waits in vain."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from scaffold.debug.matching import waits
from scaffold.debug.records import Process, Records
from scaffold.errors import RequestError

RECORD = "SCAFFOLD_DEBUG_RECORD"
OPTIONS = "SCAFFOLD_DEBUG_OPTIONS"
POLL_S = 0.2
CERTAIN_S = 3.0
"""How long ranks wait where it is certain that it is in vain; shorter than any timeout."""

BROUGHT = Path(__file__).parents[1] / "runners" / "rank_recorder" / "startup"
"""The folder that is put before the others on PYTHONPATH."""


@dataclass(frozen=True)
class WatchResult:
    """The end of a job: its last moment, the verdict, and how long it ran."""

    snapshot: Snapshot
    verdict: Verdict | None
    took_s: float


def watch(
    argv: tuple[str, ...],
    root: Path,
    folder: Path,
    timeout_s: float,
    options: str = "{}",
    *,
    quiet: bool = False,
) -> WatchResult:
    """Run a job to its end, or end it where ranks wait in vain, and return the verdict.

    Args:
        root: Where it runs; its `.venv` may have the program.
        folder: Where its processes record; it is empty.
        timeout_s: How long a rank may be in one call.
        options: What else the ranks record, as JSON for them.
        quiet: Whether the job's output goes to the error stream.

    Raises:
        RequestError: The program was not found, or cannot be started.
    """
    begun = time.monotonic()
    mark = (RECORD, str(folder))
    env = {**watched_environment(os.environ), RECORD: str(folder), OPTIONS: options}
    program = find_program(argv[0], root)
    try:
        job = processes.start([program, *argv[1:]], env, root, quiet=quiet)
    except OSError as error:
        raise RequestError(
            f"{argv[0]} cannot be started: {error.strerror}",
            code="program_missing",
            hint="give a program that is on the PATH, after --",
        ) from error
    # SIGTERM ends the watch as Ctrl-C does, so that the job is ended too.
    restored = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        snapshot = _follow(job, Records(folder), timeout_s)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the job is ended, whoever is impatient
        if job.poll() is None:
            processes.end_job(job, mark)
        else:
            processes.end_left(mark)
        signal.signal(signal.SIGTERM, restored)
    ended = [each for each in snapshot.job.ranks.values() if each.status == TERMINATED]
    last = {each.pid: found for each in ended if (found := stacks.last_stacks(folder, each))}
    snapshot = replace(snapshot, stacks={**last, **snapshot.stacks})
    add_native_calls(snapshot.job, folder, snapshot.stacks)
    stacks.save(folder, snapshot.stacks)
    return WatchResult(snapshot, diagnose(snapshot), time.monotonic() - begun)


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


def watched_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that brings the recorder into each Python that has it."""
    # An empty entry on PYTHONPATH would mean the working folder.
    path = [str(BROUGHT), *filter(None, [env.get("PYTHONPATH")])]
    # torch's own recorder sees what C++ issues.
    return {"TORCH_FR_BUFFER_SIZE": "2000", **env, "PYTHONPATH": os.pathsep.join(path)}


def _follow(job: subprocess.Popen[bytes], records: Records, timeout_s: float) -> Snapshot:
    folder, snapshot = records.folder, Snapshot(records.job(), frozenset())
    early: dict[int, tuple[stacks.Stack, ...]] = {}
    try:
        while True:
            status = job.poll()
            records.update()
            snapshot = _now(records, status, early)
            if status is not None:
                return snapshot
            if not early and _has_trouble(snapshot):  # a launcher is about to end those who wait
                early = ask(snapshot, folder)
            if _is_stuck(snapshot, records, timeout_s):
                asked = {**early, **ask(snapshot, folder)}
                return replace(_now(records, None, asked), alive=snapshot.alive)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        records.update()
        snapshot = _now(records, job.poll(), early)
        return replace(snapshot, stacks={**early, **ask(snapshot, folder)}, interrupted=True)


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


def _is_stuck(snapshot: Snapshot, records: Records, timeout_s: float) -> bool:
    """Return whether a rank has been in one call for too long, or waits certainly in vain."""
    failed = [snapshot.job.ranks[rank] for rank in failing_ranks(snapshot)]
    # A rank failed so long ago that its launcher would have ended the others.
    if any(snapshot.now_s - end_of(process) >= timeout_s for process in failed):
        return True
    longest = _longest_wait_s(snapshot)
    if longest is None:
        return _waits_in_native(snapshot, records, timeout_s)
    # The records of ranks arrive one after another; a short delay is no hang.
    is_in_vain = longest >= min(CERTAIN_S, timeout_s) and is_definite(snapshot)
    return longest >= timeout_s or is_in_vain


def _longest_wait_s(snapshot: Snapshot) -> float | None:
    """Return how long a rank that is alive has waited in its call; None where none waits."""
    found = waits(snapshot.job).items()
    since = [wait.call.since_s for rank, wait in found if rank in snapshot.alive]
    return snapshot.now_s - min(since) if since else None


def _waits_in_native(snapshot: Snapshot, records: Records, timeout_s: float) -> bool:
    """Return whether a rank waits in a call that C++ makes; only asked when all are quiet."""
    has_lost = any(rank not in snapshot.alive for rank in snapshot.job.ranks)
    patience_s = min(CERTAIN_S, timeout_s) if has_lost else timeout_s
    joined = [
        process
        for rank, process in snapshot.job.ranks.items()
        if rank in snapshot.alive and process.joined is not None and not process.left
    ]
    if not joined or snapshot.now_s - max(records.newest_s, records.asked_s) < patience_s:
        return False
    # Asking costs each rank time, so it is not done again before the next quiet span.
    records.asked_s = snapshot.now_s
    ask_flights(records.folder, joined)
    add_native_calls(snapshot.job, records.folder, {})
    longest = _longest_wait_s(snapshot)
    return longest is not None and longest >= patience_s


def ask(snapshot: Snapshot, folder: Path) -> dict[int, tuple[stacks.Stack, ...]]:
    """Return the stacks of the processes that are alive, and let torch write its record."""
    asked: list[Process] = [snapshot.job.ranks[rank] for rank in sorted(snapshot.alive)]
    asked += [each for each in snapshot.job.others if processes.is_alive(each)]
    ask_flights(folder, asked)
    return stacks.ask_stacks(folder, asked)
