"""What is wrong with a job: which rank parted from the others, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from scaffold.debug.matching import (
    Divergence,
    Wait,
    blamed,
    cycle,
    first_divergence,
    line_divergence,
    waits,
)
from scaffold.debug.records import POINT_TO_POINT, SET_UP, Call, Failure, Job, Place, Process
from scaffold.debug.stacks import Stack, own_frames
from scaffold.debug.wording import (
    call_text,
    end_text,
    group_text,
    place_text,
    ranks_text,
    where_text,
)

KINDS: dict[str, str] = {
    "collective": "Ranks of a group make different collectives.",
    "order": "Ranks of a group make the same collectives in another order.",
    "shape": "Ranks make the same collective with tensors of different sizes.",
    "dtype": "Ranks make the same collective with tensors of different dtypes.",
    "root": "Ranks make the same collective from different roots.",
    "reduction": "Ranks reduce with different operations.",
    "groups": "Ranks make different groups, or wait for each other in different groups.",
    "peer": "A message is sent or awaited, and its partner does neither.",
    "exited": "A rank ended, or failed, while others wait for it.",
    "outside": "A rank is stuck outside of communication while others wait for it.",
    "absent": "A rank never joined the job: it has not called init_process_group.",
    "failed": "A rank failed; no other rank waits for it.",
    "memory": "A rank ran out of memory.",
    "stalled": "All ranks reached a call that does not finish.",
    "job": "The job failed, and no rank of it did.",
    "nan": "A NaN got into gradients or parameters, or came out of the model (`--checksums`).",
    "replicas": "Ranks with the same gradients began with other weights (`--checksums`).",
    "interrupted": "A person stopped the job.",
}
"""Every verdict with its meaning."""

_MEMORY = re.compile(
    r"out of memory|not enough memory|can't allocate memory|Cannot allocate memory", re.IGNORECASE
)
# What backends and sockets report when the other end is gone; below, when a wait was given up.
_OF_A_PEER = re.compile(
    r"closed by peer|reset by peer|remote worker|remote process exited|connection refused"
    r"|broken pipe|socket closed|connection was likely closed",
    re.IGNORECASE,
)
_LATE = re.compile(r"timed out|timeout|aborted", re.IGNORECASE)
# The status of a process that SIGTERM ended, as subprocess has it.
TERMINATED = -15
ABORTED = -6


@dataclass(frozen=True)
class Snapshot:
    """A job at one moment.

    Args:
        alive: The ranks whose process is there.
        stacks: Of each process that was asked, by pid.
        status: The job's exit status, or None while it runs.
        interrupted: Whether a person stopped it.
    """

    job: Job
    alive: frozenset[int]
    stacks: dict[int, tuple[Stack, ...]] = field(default_factory=dict[int, tuple[Stack, ...]])
    now_s: float = 0.0
    status: int | None = None
    interrupted: bool = False


@dataclass(frozen=True)
class Verdict:
    """The fault of a job.

    Args:
        kind: One of KINDS.
        group: The group that it is about, or "".
        notes: Further evidence, as sentences.
    """

    kind: str
    ranks: tuple[int, ...]
    text: str
    group: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""


def diagnose(snapshot: Snapshot) -> Verdict | None:
    """Return what is wrong with a job, or None where nothing is."""
    job = snapshot.job
    failing = failing_ranks(snapshot)
    first = failing[0] if failing else None
    # First of all, as out of memory makes a rank leave the common sequence.
    failure = None if first is None else job.ranks[first].failure
    if first is not None and failure is not None and _is_memory(failure):
        text = f"{ranks_text([first])} ran out of memory{_at(failure.frames)}: {failure.message}"
        return Verdict("memory", (first,), text.strip().splitlines()[0], hint=_HINTS["memory"])
    parted = first_divergence(job)
    if parted is not None and _is_of_the_record(snapshot, parted):
        parted = None
    # Calls that do not match cause timeouts and closed connections, not the other way round.
    if parted is not None and not _came_first(job, first, parted):
        return _handling(snapshot, parted) or _parted(snapshot, parted)
    found = waits(job, failing)
    if first is not None and not _is_consequence(job.ranks[first]):
        return _failed(snapshot, first, found)
    # Once a job has ended without a failing rank, an open call only lacks the record of its end.
    if found and (first is not None or snapshot.status is None):
        return _waiting(snapshot, found)
    if first is not None:
        return _failed(snapshot, first, found)
    if snapshot.interrupted:
        return Verdict("interrupted", (), "the job was stopped by hand; no rank waited for another")
    said = f"the job ended with status {snapshot.status}, and no rank failed"
    return Verdict("job", (), said) if snapshot.status else None


def _is_of_the_record(snapshot: Snapshot, parted: Divergence) -> bool:
    """Return whether a job refutes a difference by having ended well.

    Calls in another order, or other calls, would have kept ranks waiting. Where C++ communicates
    too, the numbers of the calls rest on two recorders.
    """
    calls = [call for process in snapshot.job.ranks.values() for call in process.calls]
    has_native = any(call.is_native and call.group == parted.group for call in calls)
    return snapshot.status == 0 and (has_native or parted.kind in ("collective", "order"))


def is_definite(snapshot: Snapshot) -> bool:
    """Whether the ranks that wait can never be served, so that there is no point in waiting."""
    job, found = snapshot.job, waits(snapshot.job)
    if not found:
        return False
    parted = first_divergence(job)
    if parted is not None and any(wait.call.group == parted.group for wait in found.values()):
        return True
    gone = [rank for rank in blamed(found) if rank in job.ranks and rank not in snapshot.alive]
    return bool(cycle(found) or gone)


def failing_ranks(snapshot: Snapshot) -> list[int]:
    """Return the ranks that failed, who failed by themselves and first before the others."""
    job = snapshot.job
    found = [rank for rank, process in job.ranks.items() if _has_failed(snapshot, rank, process)]
    return sorted(
        found, key=lambda rank: (_is_consequence(job.ranks[rank]), end_of(job.ranks[rank]))
    )


def _has_failed(snapshot: Snapshot, rank: int, process: Process) -> bool:
    if process.failure is not None:
        return True
    if process.status is not None:
        # Launchers end the other ranks by SIGTERM once one has failed.
        return process.status not in (0, TERMINATED)
    return (
        rank not in snapshot.alive and process.ended_s is None and snapshot.status not in (None, 0)
    )


def end_of(process: Process) -> float:
    """Return when a process ended, as well as that is known."""
    if process.failure is not None:
        return process.failure.at_s
    # A process that was killed leaves no time of death: its last record is the nearest.
    last = process.calls[-1].since_s if process.calls else process.begun_s
    return process.ended_s or process.status_s or last


def _is_consequence(process: Process) -> bool:
    """Return whether a process failed because another one was gone or never came."""
    if process.failure is None:
        # A backend aborts in a call whose partners sent something else, or are gone.
        is_aborted = process.status == ABORTED and any(call.is_open for call in process.calls[-1:])
        return is_aborted or process.status in (None, TERMINATED)
    # A handler may communicate once more after the call that failed.
    in_call = any(call.state == "failed" for call in process.calls[-3:])
    message = process.failure.message
    return bool(_OF_A_PEER.search(message)) or (in_call and bool(_LATE.search(message)))


def _is_memory(failure: Failure) -> bool:
    is_named = failure.type in ("OutOfMemoryError", "MemoryError")
    return is_named or _MEMORY.search(failure.message) is not None


def _came_first(job: Job, first: int | None, parted: Divergence) -> bool:
    """Return whether a rank's own failure explains its different calls."""
    if first is None or _is_consequence(job.ranks[first]):
        return False
    process = job.ranks[first]
    # The different call was made while an exception was handled.
    if any(call.during for call in parted.calls.values()):
        return True
    in_call = any(call.state == "failed" for call in process.calls[-3:])
    parted_s = max(call.entered_s for call in parted.calls.values())
    return not in_call and end_of(process) < parted_s


# --- verdicts -----------------------------------------------------------------------------------


def _parted(snapshot: Snapshot, parted: Divergence) -> Verdict:
    group = snapshot.job.group(parted.group)
    what = {
        "collective": "make different collectives",
        "order": "make the same collectives in another order",
        "shape": "give tensors of different sizes",
        "dtype": "give tensors of different dtypes",
        "root": "name different roots",
        "reduction": "reduce with different operations",
        "groups": "set up different things",
    }[parted.kind]
    # Without a majority every rank is odd, and there is nobody to part from.
    some = len(parted.odd) < len(parted.calls)
    who = ranks_text(parted.odd)
    rest = ranks_text(set(parted.calls) - set(parted.odd)) if some else ""
    verb = "parts from " + rest if some else what
    head = f"{who} {verb} in call {parted.number} of {group_text(group)}"
    head += f": they {what}" if some else ""
    sides = "; ".join(
        f"{ranks_text(ranks)}: {call_text(call)} at {where_text(call.at)}"
        for ranks, call in _sides(parted)
    )
    return Verdict(
        parted.kind, parted.odd, f"{head}. {sides}", parted.group, hint=_HINTS[parted.kind]
    )


def _handling(snapshot: Snapshot, parted: Divergence) -> Verdict | None:
    """Return the verdict where a rank makes another call because it is handling an exception."""
    handling = {rank: call for rank, call in parted.calls.items() if call.during}
    # Where all ranks handle an exception, it does not set one of them apart.
    if not handling or len(handling) == len(parted.calls):
        return None
    rank, call = next(iter(handling.items()))
    place = f" at {place_text(call.during_at)}" if call.during_at else ""
    text = (
        f"{ranks_text([rank])} failed{place}: {call.during}; while handling that it is in "
        f"{call_text(call)}, at {where_text(call.at)}, and "
    )
    others = ((other, each) for other, each in parted.calls.items() if other not in handling)
    found = [Wait(other, each, (rank,)) for other, each in others]
    text += who_waits(snapshot.job, found)
    return Verdict("exited", tuple(handling), text, parted.group, hint=_HINTS["exited"])


def _sides(parted: Divergence) -> list[tuple[list[int], Call]]:
    sides: dict[tuple[str, object], tuple[list[int], Call]] = {}
    for rank, call in parted.calls.items():
        # Ranks that make the same call from the same line are one side.
        sides.setdefault((call_text(call), call.at), ([], call))[0].append(rank)
    return list(sides.values())


def _failed(snapshot: Snapshot, rank: int, found: dict[int, Wait]) -> Verdict:
    process = snapshot.job.ranks[rank]
    frames = process.failure.frames if process.failure is not None else ()
    text = f"{ranks_text([rank])} failed first{_at(frames)}: {end_text(process)}"
    waiting = [wait for wait in found.values() if rank in wait.for_ranks and wait.rank != rank]
    if not waiting:
        return Verdict("failed", (rank,), text, hint=_HINTS["failed"])
    text, notes = f"{text}; {who_waits(snapshot.job, waiting)}", _last_call(process, rank)
    return Verdict("exited", (rank,), text, waiting[0].call.group, notes, _HINTS["exited"])


def _waiting(snapshot: Snapshot, found: dict[int, Wait]) -> Verdict:
    wanted = blamed(found)
    if wanted:
        return _wanted(snapshot, found, wanted)
    ring = cycle(found)
    if ring:
        return _ring(snapshot, found, ring)
    # Nobody is missing and no ring is there: the call itself does not end.
    wait = next(iter(found.values()))
    text = (
        f"{ranks_text(found)} have all come to {call_text(wait.call)}, call {wait.call.number} of "
        f"{group_text(snapshot.job.group(wait.call.group))}, and it does not end"
    )
    failed = [snapshot.job.ranks[rank] for rank in failing_ranks(snapshot)]
    text += f": {end_text(failed[0])}" if failed else ""
    return Verdict("stalled", tuple(found), text, wait.call.group, hint=_HINTS["stalled"])


def _wanted(snapshot: Snapshot, found: dict[int, Wait], wanted: tuple[int, ...]) -> Verdict:
    job = snapshot.job
    gone = [rank for rank in wanted if rank in job.ranks and _has_gone(snapshot, rank)]
    # Of several that are gone the first one took the others with it.
    rank = min(gone, key=lambda each: end_of(job.ranks[each])) if gone else wanted[0]
    waiting = [wait for wait in found.values() if rank in wait.for_ranks]
    who = who_waits(job, waiting)
    process = job.ranks.get(rank)
    call = waiting[0].call
    notes = () if process is None else _last_call(process, rank)
    notes += _from_other_lines(job, call.group)
    # A rank inside init_process_group has come, though it has not joined.
    has_come = process is not None and any(c.op == "init_process_group" for c in process.calls)
    if process is None or (process.joined is None and not has_come):
        doing = _doing(snapshot, process)
        text = f"{ranks_text([rank])} never called init_process_group{doing}; {who}"
        return Verdict("absent", (rank,), text, call.group, notes, _HINTS["absent"])
    if rank in gone:
        text = f"{ranks_text([rank])} {end_text(process)}, and {who}"
        has_left = process.ended_s is not None and process.status == TERMINATED
        is_fault = process.failure or (process.status and not has_left)
        hint = _HINTS["exited"] if is_fault else _HINTS["ended"]
        return Verdict("exited", (rank,), text, call.group, notes, hint)
    if call.op in POINT_TO_POINT:
        text = f"{ranks_text([rank])} does not answer{_doing(snapshot, process)}; {who}"
        return Verdict("peer", (rank,), text, call.group, notes, _HINTS["peer"])
    same = tuple(each for each in wanted if not _has_gone(snapshot, each)) or (rank,)
    is_there = any(each in snapshot.alive for each in same)
    are = ("is" if len(same) == 1 else "are") if is_there else ("was" if len(same) == 1 else "were")
    where = "stuck outside of communication" if is_there else "elsewhere when the job was ended"
    text = f"{ranks_text(same)} {are} {where}{_doing(snapshot, process)}; {who}"
    return Verdict("outside", same, text, call.group, notes, _HINTS["outside"])


def _has_gone(snapshot: Snapshot, rank: int) -> bool:
    """Return whether a rank ended; one that a launcher ended, because others failed, was there."""
    process = snapshot.job.ranks[rank]
    # Whoever had come to its end before was on its way out.
    was_ended = process.status == TERMINATED and process.ended_s is None
    return rank not in snapshot.alive and not (was_ended and failing_ranks(snapshot))


def _ring(snapshot: Snapshot, found: dict[int, Wait], ring: tuple[int, ...]) -> Verdict:
    rows = "; ".join(
        f"{ranks_text([rank])} is in {call_text(found[rank].call)} of "
        f"{group_text(snapshot.job.group(found[rank].call.group))} at "
        f"{where_text(found[rank].call.at)} and waits for {ranks_text(found[rank].for_ranks)}"
        for rank in ring
    )
    messages = any(found[rank].call.op in POINT_TO_POINT for rank in ring)
    kind = "peer" if messages else "groups"
    text = f"{ranks_text(ring)} wait for each other: {rows}"
    return Verdict(kind, ring, text, found[ring[0]].call.group, hint=_HINTS[kind])


def who_waits(job: Job, waiting: list[Wait]) -> str:
    """Return which ranks wait for another one, and in what."""
    call = waiting[0].call
    number = f", call {call.number}" if call.number else ""
    verb = "waits" if len(waiting) == 1 else "wait"
    return (
        f"{ranks_text(wait.rank for wait in waiting)} {verb} for it in {call_text(call)}{number} "
        f"of {group_text(job.group(call.group))}, at {where_text(call.at)}"
    )


def _doing(snapshot: Snapshot, process: Process | None) -> str:
    if process is None:
        return ": no process of it is there"
    for stack in snapshot.stacks.get(process.pid, ()):
        frames = own_frames(stack.frames) or stack.frames
        if stack.is_main and frames:
            return f", at {place_text(frames[0])}"
    return "" if process.rank in snapshot.alive else f": it {end_text(process)}"


def _last_call(process: Process, rank: int) -> tuple[str, ...]:
    call = next((each for each in reversed(process.calls) if each.group != SET_UP), None)
    if call is None:
        return ()
    number = f", call {call.number}" if call.number else ""
    last = f"the last of {ranks_text([rank])}: {call_text(call)}{number}"
    return (f"{last} of group {call.group}, at {where_text(call.at)}",)


def _from_other_lines(job: Job, group: str) -> tuple[str, ...]:
    found = line_divergence(job, group) if group != SET_UP else None
    if found is None:
        return ()
    sides = "; ".join(
        f"{ranks_text(ranks)} at {where_text(call.at)}" for ranks, call in _sides(found)
    )
    return (f"call {found.number} is the first that ranks make from different lines: {sides}",)


def _at(frames: tuple[Place, ...]) -> str:
    # Tracebacks have the innermost frame last.
    own = own_frames(frames[::-1])
    return f" at {place_text(own[0])}" if own else ""


_HINTS = {
    "collective": "let every rank of the group make this call; look for a branch on the rank",
    "order": "make the calls in one order on all ranks; look for loops over sets or dicts",
    "shape": "pad to one size, or gather the sizes first",
    "dtype": "convert to one dtype before the call",
    "root": "give all ranks the same root; it is a global rank",
    "reduction": "give all ranks the same reduction",
    "groups": "call new_group on every rank, and use groups in one order",
    "peer": "give each send its recv, with the same tag and in one order; batch_isend_irecv helps",
    "exited": "fix the cause; catch errors on all ranks alike",
    "ended": "let all ranks make as many calls: look at lengths of data, and at early returns",
    "outside": "see its stack below; if it only takes long, give a longer --timeout",
    "absent": "see where it is; ranks have to agree on MASTER_ADDR, MASTER_PORT and WORLD_SIZE",
    "failed": "fix the error; its traceback is in the output above",
    "memory": "run it with --memory to see what uses it",
    "stalled": "look at network and backend: `scaffold debug env`, then NCCL_DEBUG=INFO",
}
