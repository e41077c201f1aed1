"""The record of torch's flight recorder: the collectives that C++ issues by itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaffold.debug.records import Call, Job, Place, Process
from scaffold.debug.stacks import ANSWER_S, Stack, own_frames

Stacks = Mapping[int, Sequence[Stack]]

SLACK_S = 2e-6
"""How far a time may be off by rounding; both recorders read the clock of the system."""

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Byte": "uint8",
    "Char": "int8",
    "Bool": "bool",
}


def add_native_calls(job: Job, folder: Path, stacks: Stacks) -> None:
    """Add to each rank the calls that only torch saw, and renumber the collectives.

    A rank that was killed cannot report; it is taken to have made those that ended on another one,
    since they end nowhere unless all members come.

    Args:
        job: The job; its calls are changed.
        stacks: Of the processes that were asked: from there a call of C++ that is open was made.
    """
    native: dict[int, list[Call]] = {}
    if any("@" in name for process in job.ranks.values() for name in process.groups):
        return  # the groups were left and made again, and torch calls them by the same names
    for rank, process in job.ranks.items():
        process.calls = [replace(call) for call in process.calls]  # the record keeps its own
        rows = _read(folder, process)
        if rows is not None:
            native[rank] = _native(process, rows)
    for name in sorted({call.group for calls in native.values() for call in calls}):
        members = [rank for rank in job.group(name).ranks if rank in job.ranks]
        told = {
            rank: [call for call in native[rank] if call.group == name]
            for rank in members
            if rank in native
        }
        # The rank that has most calls of the group saw those that the others lack.
        donor = max(told.values(), key=len)
        for rank in members:
            process = job.ranks[rank]
            calls = told.get(rank, [])
            # One that was killed went on after its word, before it could add to it.
            is_stale = not _is_newer(folder / _name(process), _last_s(process))
            if rank not in told or is_stale:
                ended = [replace(call) for call in donor if call.state == "done"]
                calls = max(calls, ended, key=len)
            _join(process, name, calls, _place(process, stacks))


def ask_flights(folder: Path, processes: Sequence[Process]) -> None:
    """Ask processes for torch's flight record, and wait for those that can write it."""
    asked = [each for each in processes if _ask(folder, each)]
    until = time.monotonic() + ANSWER_S
    # Modification times may be coarser than the clock.
    begun = time.time() - 0.5
    while asked and time.monotonic() < until:
        asked = [each for each in asked if not _is_newer(folder / _name(each), begun)]
        time.sleep(0.05)


def _ask(folder: Path, process: Process) -> bool:
    try:
        # The other end is open only while the thread that answers is alive.
        writer = os.open(folder / f"{process.pid}.ask", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False  # it has ended, or never joined
    try:
        os.write(writer, b"?")
    finally:
        os.close(writer)
    return True


def _is_newer(file: Path, than_s: float) -> bool:
    return file.exists() and file.stat().st_mtime > than_s


def _name(process: Process) -> str:
    return f"{process.pid}.flight.json"


def _place(process: Process, stacks: Stacks) -> tuple[Place, ...]:
    """Return the line of the program under which C++ communicates, where it is known."""
    frames = process.failure.frames[::-1] if process.failure is not None else ()
    main = next((each.frames for each in stacks.get(process.pid, ()) if each.is_main), ())
    return own_frames(frames or main)[:1]


def _read(folder: Path, process: Process) -> list[dict[str, Any]] | None:
    try:
        text = (folder / _name(process)).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError):
        return None


def _native(process: Process, rows: Sequence[dict[str, Any]]) -> list[Call]:
    # Messages have no number in the group's sequence of collectives.
    calls = [as_call(row) for row in rows if not row.get("is_p2p")]
    found = [
        call
        for call in calls
        if not any(
            known.group == call.group
            and known.entered_s - SLACK_S <= call.entered_s
            and call.entered_s <= (known.issued_s or float("inf")) + SLACK_S
            for known in process.calls
        )
    ]
    if process.failure is not None and found and found[-1].entered_s > _last_s(process):
        found[-1].state = "failed"  # torch retires what failed, too
    return found


def _last_s(process: Process) -> float:
    return max((call.since_s for call in process.calls), default=0.0)


def as_call(row: Mapping[str, Any]) -> Call:
    dtypes = [_DTYPES.get(str(each), str(each)) for each in row.get("input_dtypes", [])]
    shapes = [tuple(each) for each in row.get("input_sizes", [])]
    created = row["time_created_ns"] / 1e9
    done = row.get("retired") or row.get("state") == "completed"
    return Call(
        id=0,
        group=str(row["process_group"][0]),
        number=row.get("collective_seq_id", 0),
        op=row["profiling_name"].rpartition(":")[2],
        tensors=tuple(zip(dtypes, shapes, strict=False)),
        state="done" if done else "waiting",
        entered_s=created,
        since_s=created,
        issued_s=created,
        is_native=True,
    )


def _join(process: Process, group: str, native: Sequence[Call], place: tuple[Place, ...]) -> None:
    if not native:
        return
    for call in native:
        call.at = () if call.state == "done" else place
    process.calls = sorted([*process.calls, *native], key=lambda call: call.entered_s)
    collectives = [call for call in process.calls if call.group == group and call.number]
    # The records may begin late, as old calls are dropped; the first number is kept.
    first = min(call.number for call in collectives)
    for number, call in enumerate(collectives, first):
        call.number = number
