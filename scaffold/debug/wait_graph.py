"""Finds out whom ranks wait for: the wait-for graph, followed to where it ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scaffold.debug.records import POINT_TO_POINT, SET_UP, Call, Job, Process


@dataclass(frozen=True)
class Wait:
    """One rank's wait: the call it is in, and the ranks that have not reached it."""

    rank: int
    call: Call
    for_ranks: tuple[int, ...]


def open_call(process: Process) -> Call | None:
    """Return the call that a process is in: the main thread's, else the one it is in longest."""
    found = [call for call in process.calls if call.is_open]
    # The main thread is recorded as "", and it is the one that the program is stuck in.
    return min(found, key=lambda call: (call.thread != "", call.since_s), default=None)


def waits(job: Job, failed: Collection[int] = ()) -> dict[int, Wait]:
    """Return what each rank waits in, and for whom.

    Args:
        failed: Ranks whose last call failed, which counts as waiting in it.
    """
    found: dict[int, Wait] = {}
    for rank, process in job.ranks.items():
        call = open_call(process)
        if call is None and rank in failed and process.calls:
            last = process.calls[-1]
            call = last if last.state == "failed" else None
        if call is not None:
            found[rank] = Wait(rank, call, blockers(job, rank, call))
    return found


def blockers(job: Job, rank: int, call: Call) -> tuple[int, ...]:
    """Return the ranks without which a call cannot end."""
    if call.op in POINT_TO_POINT:
        return _partners(job, rank, call)
    members = job.group(call.group).ranks or tuple(range(job.world))
    return tuple(
        member for member in members if member != rank and not _has_come(job, member, call)
    )


def _has_come(job: Job, rank: int, call: Call) -> bool:
    process = job.ranks.get(rank)
    if process is None:
        return False
    if call.group == SET_UP and not call.number:  # made by its members alone
        return any(each.op == call.op for each in process.calls)
    # Numbers only grow, so a later call proves that this one was made.
    return any(each.group == call.group and each.number >= call.number for each in process.calls)


def _partners(job: Job, rank: int, call: Call) -> tuple[int, ...]:
    members = job.group(call.group).ranks
    if call.peer is None or call.peer >= len(members):
        return tuple(member for member in members if member != rank)
    partner = members[call.peer]
    is_met = _has_answered(job.ranks.get(partner), call, members.index(rank))
    return () if is_met else (partner,)


def _has_answered(partner: Process | None, call: Call, peer: int) -> bool:
    """Return whether the other end of a message was called as often as this one."""
    answers = (
        each
        for each in (partner.calls if partner is not None else ())
        if each.op in POINT_TO_POINT
        # A send meets a receive and never another send.
        and (each.op == "send") != (call.op == "send")
        and (each.group, each.tag) == (call.group, call.tag)
        and each.peer in (peer, None)
    )
    return any(each.nth >= call.nth or each.peer is None for each in answers)


def cycle(found: dict[int, Wait]) -> tuple[int, ...]:
    """Return ranks that wait for each other in a ring, or none."""
    for start in found:
        seen: list[int] = []
        rank = start
        while rank in found and rank not in seen:
            seen.append(rank)
            waiting = [each for each in found[rank].for_ranks if each in found]
            if not waiting:
                break
            rank = waiting[0]
        else:
            if rank in seen:
                return tuple(seen[seen.index(rank) :])
    return ()


def blamed(found: dict[int, Wait]) -> tuple[int, ...]:
    """Return the ranks that others wait for and that wait for nobody, the most wanted first."""
    wanted = [rank for wait in found.values() for rank in wait.for_ranks if rank not in found]
    return tuple(sorted(set(wanted), key=lambda rank: (-wanted.count(rank), rank)))
