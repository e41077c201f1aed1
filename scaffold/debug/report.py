"""Puts what became of a job on one screen: the verdict first, the evidence below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scaffold.debug.diagnosis import Snapshot, Verdict
from scaffold.debug.matching import open_call
from scaffold.debug.records import SET_UP, Call, Group, Process
from scaffold.debug.stacks import Stack, own_frames, to_json
from scaffold.debug.watch import WatchResult
from scaffold.debug.wording import call_text, cut, end_text, place_text, where_text

# One screen: columns of text, ranks, frames of a stack, characters of a state.
WIDTH = 100
MAX_RANKS = 16
MAX_FRAMES = 8
MAX_STATE = 60


def verdict_text(seen: WatchResult, folder: str, *, with_numbers: bool = False) -> str:
    """Return the report of a job that was watched.

    Args:
        folder: Where its record is.
        with_numbers: Whether modules recorded their numbers, and those were judged.
    """
    verdict = seen.verdict
    if verdict is None:
        ranks = len(seen.snapshot.job.ranks)
        words = (
            f"nothing found: the job ended with status 0, and the calls of its {ranks} ranks agree"
        )
        rows = [f"ok         {words if ranks else _NO_RANKS}"]
        rows += [_WITH_NUMBERS if with_numbers else _WITHOUT_NUMBERS]
        return "\n".join([*rows, f"record     {folder}", ""])
    return "\n".join([*verdict_rows(seen.snapshot, verdict), f"record     {folder}", ""])


def verdict_rows(snapshot: Snapshot, verdict: Verdict) -> list[str]:
    """Return the verdict, its evidence, the ranks and the stacks that matter."""
    rows = [wrapped("verdict", f"{verdict.kind}: {verdict.text}")]
    rows += [wrapped("note", note) for note in verdict.notes]
    rows += [wrapped("next", verdict.hint)] if verdict.hint else []
    rows += picture(snapshot, verdict.ranks)
    # Of those that diverged two stacks are shown, else one of a rank that waits.
    have = [rank for rank, each in snapshot.job.ranks.items() if _main_stack(snapshot, each)]
    for rank in [each for each in have if each in verdict.ranks][:2] or have[:1]:
        rows += _stack_rows(snapshot, rank)
    return rows


_WITH_NUMBERS = "numbers    no NaN in the end, and replicas began with the same weights"
_WITHOUT_NUMBERS = "numbers    not looked at; --checksums finds a NaN, and replicas that differ"
_NO_RANKS = "nothing found: the job ended with status 0; none of its processes joined a group"


def wrapped(label: str, text: str) -> str:
    """Return a row of the report, folded to one screen."""
    indent = " " * 11
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"{label:<11}",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def picture(snapshot: Snapshot, named: Sequence[int]) -> list[str]:
    """Return the table of ranks.

    Args:
        named: The ranks that are shown even where there are too many.
    """
    ranks = sorted(set(snapshot.job.ranks) | set(snapshot.job.missing))
    if not ranks:
        return []
    first = [rank for rank in ranks if rank in named]
    shown = sorted([*first, *[rank for rank in ranks if rank not in first]][:MAX_RANKS])
    cells = [("rank", "state", "call", "where"), *(_row(snapshot, rank) for rank in shown)]
    widths = [max(len(row[at]) for row in cells) for at in range(3)]
    rows = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in cells
    ]
    left = len(ranks) - len(shown)
    return [row.rstrip() for row in rows] + ([f"and {left} ranks more"] if left else [])


def _row(snapshot: Snapshot, rank: int) -> tuple[str, str, str, str]:
    process = snapshot.job.ranks.get(rank)
    if process is None:
        return str(rank), "no process of it is seen", "", ""
    call = open_call(process)
    where = where_text(call.at) if call is not None else _outside_where(snapshot, process)
    last = call or next((each for each in reversed(process.calls) if each.number), None)
    number = ""
    if last is not None and last.number:
        group = "set-up" if last.group == SET_UP else f"group {last.group}"
        number = f"{last.number} of {group}"
    return str(rank), state_text(snapshot, process, call), number, where


def state_text(snapshot: Snapshot, process: Process, call: Call | None) -> str:
    is_alive, is_running = process.rank in snapshot.alive, snapshot.status is None
    has_ended = process.failure is not None or (is_running and not is_alive)
    if call is not None and not has_ended:
        waited = f" for {snapshot.now_s - call.since_s:.0f} s" if is_running else ""
        return cut(f"in {call_text(call)}", MAX_STATE) + waited
    if is_alive and not has_ended:
        return "outside of communication"
    return cut(end_text(process), MAX_STATE)


def _outside_where(snapshot: Snapshot, process: Process) -> str:
    frames = process.failure.frames[::-1] if process.failure is not None else ()
    stack = _main_stack(snapshot, process)
    frames = frames or (stack.frames if stack is not None else ())
    own = own_frames(frames)
    if own:
        return place_text(own[0])
    call = process.calls[-1] if process.calls else None
    return f"last seen at {where_text(call.at)}" if call is not None else ""


def _main_stack(snapshot: Snapshot, process: Process) -> Stack | None:
    stacks = snapshot.stacks.get(process.pid, ())
    return next((each for each in stacks if each.is_main and each.frames), None)


def _stack_rows(snapshot: Snapshot, rank: int) -> list[str]:
    stack = _main_stack(snapshot, snapshot.job.ranks[rank])
    assert stack is not None
    rows = [f"stack of rank {rank}, innermost first:"]
    rows += [f"  {place_text(frame)}" for frame in stack.frames[:MAX_FRAMES]]
    more = len(stack.frames) - MAX_FRAMES
    return [*rows, *([f"  and {more} frames more"] if more > 0 else [])]


def report_json(seen: WatchResult, folder: str) -> dict[str, Any]:
    """Return everything for the report's own keys."""
    snapshot, job = seen.snapshot, seen.snapshot.job
    names = sorted({name for process in job.ranks.values() for name in process.groups})
    return {
        "verdict": None if seen.verdict is None else _plain(seen.verdict),
        "status": snapshot.status,
        "seconds": round(seen.took_s, 2),
        "world": job.world,
        "ranks": [_rank_json(snapshot, rank) for rank in sorted(job.ranks)],
        "missing": job.missing,
        "groups": {name: _plain(job.group(name), "name") for name in names},
        "record": folder,
    }


def _rank_json(snapshot: Snapshot, rank: int) -> dict[str, Any]:
    process = snapshot.job.ranks[rank]
    call, failure = open_call(process), process.failure
    exception = failure and {
        "type": failure.type,
        "message": failure.message,
        "frames": [list(each) for each in failure.frames],
    }
    return {
        "rank": rank,
        "pid": process.pid,
        "alive": rank in snapshot.alive,
        "state": state_text(snapshot, process, call),
        "call": _call_json(call),
        "last": _call_json(process.calls[-1] if process.calls else None),
        "calls": len(process.calls),
        "status": process.status,
        "exception": exception,
        "stacks": to_json(snapshot.stacks.get(process.pid, ())),
        "faults": process.faults,
    }


def _call_json(call: Call | None) -> dict[str, Any] | None:
    if call is None:
        return None
    return {
        "op": call.op,
        "group": call.group,
        "number": call.number,
        "tensors": [{"dtype": dtype, "shape": list(shape)} for dtype, shape in call.tensors],
        "options": call.options,
        "at": [list(each) for each in call.at],
        "via": call.via,
        "state": call.state,
        "peer": call.peer,
        "native": call.is_native,
    }


def _plain(thing: Verdict | Group, without: str = "") -> dict[str, Any]:
    told: list[tuple[str, Any]] = [*asdict(thing).items()]
    return {key: [*each] if type(each) is tuple else each for key, each in told if key != without}
