"""Looks at ranks that run already, for the command ``scaffold debug attach``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaffold.debug.diagnosis import Snapshot, Verdict, diagnose
from scaffold.debug.flight_recorder import add_native_calls
from scaffold.debug.matching import odd_ranks, waits
from scaffold.debug.records import Call, Job, Process, read_job
from scaffold.debug.report import picture, report_json, verdict_rows, wrapped
from scaffold.debug.running_ranks import RunningRank, cpu_seconds, find_ranks
from scaffold.debug.stacks import COMMUNICATING, Stack, Waiting, spy, waiting_in
from scaffold.debug.watch import WatchResult, ask
from scaffold.debug.wording import ranks_text, where_text
from scaffold.errors import RequestError
from scaffold.report import Report

SAMPLES = 3
BUSY = 0.2
"""The share of a core above which a process that stays on one line works in C."""

_SLOW = "if it may only be slow, look longer: --seconds 60"


@dataclass(frozen=True)
class Look:
    """What was seen of one rank.

    Args:
        stacks: All its stacks, the one that counts first.
        moved: Whether the stack was another one between looks, or the process used its core.
    """

    stacks: tuple[Stack, ...]
    waiting: Waiting
    moved: bool


def attach(pids: Sequence[int], seconds: float) -> Report:
    """Report what the ranks of a running job wait for; nothing of the job is changed.

    Ranks that were started under ``scaffold debug run`` answer with their own records. Of others
    py-spy reads the stacks from outside, without pausing them.

    Args:
        pids: Ranks, or a launcher of ranks; none for the one job of this machine.

    Raises:
        RequestError: There are no such ranks, those of several jobs, or none can be read.
    """
    begun = time.monotonic()
    ranks, job_notes = find_ranks(pids)
    folder = _record(ranks)
    if folder is not None:
        snapshot, verdict, notes = _by_record(folder, seconds)
    else:
        snapshot, verdict, notes = _by_stacks(ranks, seconds)
    notes = [*job_notes, *notes]
    seen = WatchResult(snapshot, verdict, time.monotonic() - begun)
    if verdict is not None:
        rows = verdict_rows(snapshot, replace(verdict, notes=(*verdict.notes, *notes)))
    else:
        count = len(snapshot.job.ranks)
        head = f"none of the {count} ranks was seen to be stuck in {seconds:g} s"
        rows = [wrapped("ok", head), *(wrapped("note", each) for each in notes)]
        rows += picture(snapshot, ())
    extra: dict[str, Any] = {**report_json(seen, str(folder or "")), "notes": notes}
    text = "\n".join([*rows, ""])
    return Report("debug attach", ok=verdict is None, text=text, extra={"debug": extra})


def _record(ranks: Sequence[RunningRank]) -> Path | None:
    """Return the folder in which all the ranks record, where they do."""
    folders = {each.record for each in ranks}
    folder = Path(folders.pop()) if len(folders) == 1 else Path()
    return folder if folder.name and folder.is_dir() else None


def _by_record(folder: Path, seconds: float) -> tuple[Snapshot, Verdict | None, list[str]]:
    before = read_job(folder)
    time.sleep(seconds)
    job = read_job(folder)
    moved = [
        rank
        for rank, process in job.ranks.items()
        if _last(process) != _last(before.ranks.get(rank, process))
    ]
    now = Snapshot(job, frozenset(job.ranks), now_s=time.time())
    snapshot = replace(now, stacks=ask(now, folder))
    add_native_calls(job, folder, snapshot.stacks)
    if moved or not waits(job):
        return snapshot, None, [f"{ranks_text(moved)} made calls meanwhile"] if moved else []
    return snapshot, diagnose(snapshot), []


def _last(process: Process) -> tuple[int, str, float]:
    last = process.calls[-1:]
    return (last[0].id, last[0].state, last[0].since_s) if last else (0, "", 0.0)


def _by_stacks(
    ranks: Sequence[RunningRank], seconds: float
) -> tuple[Snapshot, Verdict | None, list[str]]:
    begun_s = time.time()
    looks, faults = _look(ranks, seconds)
    processes: dict[int, Process] = {}
    for each in ranks:
        process = Process(each.pid, rank=each.rank, world=each.world, joined=begun_s)
        if each.rank in looks and looks[each.rank].waiting.kind in COMMUNICATING:
            waiting = looks[each.rank].waiting
            at = (waiting.place,)
            # A stack has neither the group nor the number of a call.
            process.calls = [Call(1, "", 0, waiting.words, at=at, state="waiting", since_s=begun_s)]
        processes[each.rank] = process
    world = max((each.world or 0 for each in ranks), default=0)
    stacks = {processes[rank].pid: look.stacks for rank, look in looks.items()}
    job = Job(max(world, len(ranks)), processes, [])
    snapshot = Snapshot(job, frozenset(processes), stacks, time.time())
    notes = [f"rank {rank} cannot be read: {why}" for rank, why in faults.items()]
    if job.missing and len(ranks) < world:
        notes.append(f"{ranks_text(job.missing)} {'is' if len(job.missing) == 1 else 'are'} not "
                     "on this machine, or ended")  # fmt: skip
    verdict, told = conclude(looks, job.missing)
    return snapshot, verdict, [*told, *notes]


def _look(ranks: Sequence[RunningRank], seconds: float) -> tuple[dict[int, Look], dict[int, str]]:
    samples: list[dict[int, tuple[Stack, ...]]] = []
    faults: dict[int, str] = {}
    before = {each.rank: cpu_seconds(each.pid) for each in ranks}
    begun = time.monotonic()
    for number in range(SAMPLES):
        time.sleep(max(0.0, begun + seconds * number / (SAMPLES - 1) - time.monotonic()))
        found: dict[int, tuple[Stack, ...]] = {}
        for each in ranks:
            stacks, why = spy(each.pid)
            if stacks:
                found[each.rank] = _first_that_counts(stacks)
            else:
                faults[each.rank] = why
        samples.append(found)
    took_s = time.monotonic() - begun
    busy = {each.rank: (cpu_seconds(each.pid) - before[each.rank]) / took_s for each in ranks}
    if not samples[-1]:
        raise RequestError(
            f"no rank can be read: {next(iter(faults.values()), 'they have ended')}",
            code="program_missing",
            hint="install py-spy (`pip install py-spy`), run as the user of the job or as root, "
            "and give a container --cap-add SYS_PTRACE; jobs under `scaffold debug run` need none",
        )
    looks: dict[int, Look] = {}
    for rank, stacks in samples[-1].items():
        waiting = waiting_in(stacks[0].frames)
        same = all(each.get(rank, ())[:1] == stacks[:1] for each in samples)
        # A collective may turn on its core while it waits; other C code that does, works.
        works = busy[rank] > BUSY and waiting.kind != "collective"
        looks[rank] = Look(stacks, waiting, moved=not same or works)
    return looks, {rank: why for rank, why in faults.items() if rank not in looks}


def _first_that_counts(stacks: Sequence[Stack]) -> tuple[Stack, ...]:
    """Return the stacks with the one in front that communicates, else that of the main thread."""
    chosen = next(
        (each for each in stacks if waiting_in(each.frames).kind in COMMUNICATING), stacks[0]
    )
    rest = [replace(each, is_main=False) for each in stacks if each is not chosen]
    return replace(chosen, is_main=True), *rest


def conclude(looks: dict[int, Look], unseen: Sequence[int]) -> tuple[Verdict | None, list[str]]:
    """Return the verdict that stacks allow, and what else they say.

    A verdict needs every rank to have stood where it is, and one of them in communication.

    Args:
        unseen: The ranks of the job that were not looked at.
    """
    waiting = {
        rank: look.waiting for rank, look in looks.items() if look.waiting.kind in COMMUNICATING
    }
    moved = [rank for rank, look in looks.items() if look.moved]
    outside = [rank for rank in looks if rank not in waiting]
    stood = [rank for rank in waiting if rank not in moved]
    if moved or not waiting:
        told = [f"{ranks_text(moved)} moved meanwhile"] if moved else []
        if moved and stood:
            told = [f"{_sides({rank: waiting[rank] for rank in stood})}, while {ranks_text(moved)} "
                    f"moved: {_where(looks, moved)}"]  # fmt: skip
        return None, told
    if outside:
        are = "is" if len(outside) == 1 else "are"
        text = (
            f"{ranks_text(outside)} {are} outside of communication: {_where(looks, outside)}; "
            f"{_sides(waiting)}"
        )
        return Verdict("outside", tuple(outside), text, hint=f"see its stack below; {_SLOW}"), []
    places = {rank: (each.words, each.place) for rank, each in waiting.items()}
    if len(set(places.values())) == 1:
        text = _sides(waiting)
        rest = f", and {ranks_text(unseen)} {'was' if len(unseen) == 1 else 'were'} not seen"
        hint = "attach on the machines of the other ranks too" if unseen else _SLOW
        return Verdict("stalled", tuple(waiting), text + (rest if unseen else ""), hint=hint), []
    text = f"ranks wait in different calls: {_sides(waiting)}"
    note = "stacks do not say which rank went wrong first, nor the groups of the calls"
    hint = "compare the lines above; `scaffold debug run` counts the calls of each group"
    return Verdict("collective", odd_ranks(places), text, notes=(note,), hint=hint), []


def _sides(waiting: dict[int, Waiting]) -> str:
    return "; ".join(
        f"{ranks_text(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in {text}"
        for text, ranks in _by_place(waiting).items()
    )


def _where(looks: dict[int, Look], ranks: Sequence[int]) -> str:
    sides = _by_place({rank: looks[rank].waiting for rank in ranks})
    if len(sides) == 1:
        return next(iter(sides))
    return "; ".join(f"{ranks_text(found)}: {text}" for text, found in sides.items())


def _by_place(waiting: dict[int, Waiting]) -> dict[str, list[int]]:
    """Return the ranks that wait in the same, by what that is and where."""
    sides: dict[str, list[int]] = {}
    for rank, each in waiting.items():
        sides.setdefault(f"{each.words} at {where_text((each.place,))}", []).append(rank)
    return sides
