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
from scaffold.debug.diagnosis import Scene, Verdict, diagnose, end_of, failing_ranks, is_definite
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
        argv: The command that starts it.
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
class Seen:
    """The end of a job: its last moment, the verdict, and how long it ran."""

    scene: Scene
    verdict: Verdict | None
    took_s: float


def watch(how: WatchOptions) -> Seen:
    """Run a job to its end, or end it where ranks wait in vain, and return the verdict.

    Raises:
        RequestError: The program was not found, or cannot be started.
    """
    begun = time.monotonic()
    job = _start(how)
    restored = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        scene = _follow(job, how)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the job is ended, whoever is impatient
        mark = (RECORD, str(how.folder))
        if job.poll() is None:
            processes.end_job(job, mark)
        else:
            processes.end_left(mark)
        signal.signal(signal.SIGTERM, restored)
    add_native_calls(scene.job, how.folder, scene.stacks)
    stacks.save(how.folder, scene.stacks)
    return Seen(scene, diagnose(scene), time.monotonic() - begun)


def _start(how: WatchOptions) -> subprocess.Popen[bytes]:
    program = find_program(how.argv[0], how.root)
    env = watched_environment(dict(os.environ), how)
    try:
        return processes.start([program, *how.argv[1:]], env, how.root, quiet=how.quiet)
    except OSError as error:
        raise RequestError(
            f"{how.argv[0]} cannot be started: {error.strerror}",
            code="program_missing",
            hint="give a program that the shell would find, behind --",
        ) from error


def find_program(name: str, root: Path) -> str:
    """Return the path of a program: as the shell finds it, else in the `.venv` of the folder.

    Raises:
        RequestError: There is none.
    """
    beside = str(root / name) if os.sep in name else name
    found = shutil.which(beside) or shutil.which(name, path=str(root / ".venv" / "bin"))
    if found is None:
        raise RequestError(
            f"there is no program {name!r} on PATH or in {root / '.venv'}",
            code="program_missing",
            hint="activate the environment of the job, or give the program's path, behind --",
        )
    return found


def watched_environment(env: dict[str, str], how: WatchOptions) -> dict[str, str]:
    """Return an environment that brings the recorder into each Python that has it."""
    path = [str(BROUGHT), *filter(None, [env.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(path)
    env[RECORD] = str(how.folder)
    env[OPTIONS] = how.options
    env.setdefault("TORCH_FR_BUFFER_SIZE", "2000")  # torch's recorder sees what C++ issues
    return env


def _follow(job: subprocess.Popen[bytes], how: WatchOptions) -> Scene:
    records = Records(how.folder)
    scene = Scene(records.job(), frozenset())
    early: dict[int, tuple[stacks.Stack, ...]] = {}
    try:
        while True:
            status = job.poll()
            records.update()
            scene = _now(records, status, early)
            if status is not None:
                return scene
            if not early and _has_trouble(scene):  # a launcher is about to end those who wait
                early = _ask(scene, how.folder)
            if _is_stuck(scene, records, how):
                asked = {**early, **_ask(scene, how.folder)}
                return replace(_now(records, None, asked), alive=scene.alive)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        records.update()
        scene = _now(records, job.poll(), early)
        return replace(scene, stacks={**early, **_ask(scene, how.folder)}, interrupted=True)


def _now(records: Records, status: int | None, asked: dict[int, tuple[stacks.Stack, ...]]) -> Scene:
    job = records.job()
    alive = {rank for rank, process in job.ranks.items() if processes.is_alive(process)}
    return Scene(job, frozenset(alive), asked, time.time(), status)


def _has_trouble(scene: Scene) -> bool:
    return any(
        process.failure is not None or any(call.state == "failed" for call in process.calls[-1:])
        for process in scene.job.ranks.values()
    )


def _is_stuck(scene: Scene, records: Records, how: WatchOptions) -> bool:
    """Return whether a rank has been in one call for too long, or waits certainly in vain."""
    if _goes_on_without(scene, how.timeout_s):
        return True
    since = [wait.call.since_s for rank, wait in waits(scene.job).items() if rank in scene.alive]
    if not since:
        return _waits_in_native(scene, records, how)
    longest = scene.now_s - min(since)
    if longest >= how.timeout_s:
        return True
    return longest >= min(CERTAIN_S, how.timeout_s) and is_definite(scene)


def _goes_on_without(scene: Scene, timeout_s: float) -> bool:
    """Return whether a rank failed so long ago that its launcher would have ended the others."""
    failed = [scene.job.ranks[rank] for rank in failing_ranks(scene)]
    return any(scene.now_s - end_of(process) >= timeout_s for process in failed)


def _waits_in_native(scene: Scene, records: Records, how: WatchOptions) -> bool:
    """Return whether a rank waits in a call that C++ makes; only asked when all are quiet."""
    patience_s = min(CERTAIN_S, how.timeout_s) if _has_lost(scene) else how.timeout_s
    joined = [
        process
        for rank, process in scene.job.ranks.items()
        if rank in scene.alive and process.joined is not None and not process.left
    ]
    if not joined or scene.now_s - max(records.newest_s, records.asked_s) < patience_s:
        return False
    records.asked_s = scene.now_s
    ask_flights(how.folder, joined)
    add_native_calls(scene.job, how.folder, {})
    since = [wait.call.since_s for rank, wait in waits(scene.job).items() if rank in scene.alive]
    return bool(since) and scene.now_s - min(since) >= patience_s


def _has_lost(scene: Scene) -> bool:
    return any(rank not in scene.alive for rank in scene.job.ranks)


def _ask(scene: Scene, folder: Path) -> dict[int, tuple[stacks.Stack, ...]]:
    asked: list[Process] = [scene.job.ranks[rank] for rank in sorted(scene.alive)]
    asked += [each for each in scene.job.others if processes.is_alive(each)]
    ask_flights(folder, asked)
    return stacks.ask_stacks(folder, asked)
