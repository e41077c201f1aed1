"""Where ranks do not agree: the first call that differs, and whom ranks wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from scaffold.debug.records import POINT_TO_POINT, SET_UP, Call, Job, Process

SIZED = frozenset(
    {"all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor"}
    | {"gather", "scatter", "all_reduce_coalesced"}
)
"""Collectives whose tensors have to be of one size on all ranks; lists of others may differ."""

LOOK_AHEAD = 64
"""How many calls further the same call is looked for, where ranks make calls in another order."""

Key = tuple[object, ...]

Numbered = dict[int, dict[int, Call]]


@dataclass(frozen=True)
class Divergence:
    """One place in a group's sequence at which ranks make different calls.

    Args:
        kind: What differs: "collective", "order", "shape", "dtype", "root", "reduction" or
            "groups".
        number: Which call of the group it is.
        calls: The call of each rank that has come so far.
        odd: The ranks that differ from most others; all of them where there is no majority.
    """

    kind: str
    group: str
    number: int
    calls: Mapping[int, Call]
    odd: tuple[int, ...]


def first_divergence(job: Job) -> Divergence | None:
    """Return the earliest call in which ranks do not agree, or None."""
    groups = {call.group for process in job.ranks.values() for call in process.calls}
    found = [each for each in (_in_group(job, name) for name in sorted(groups)) if each]
    # What parts first makes other groups part later.
    return min(found, key=lambda each: min(c.entered_s for c in each.calls.values()), default=None)


def line_divergence(job: Job, group: str) -> Divergence | None:
    """Return the first call of a group that ranks make from different lines.

    Programs may do that on purpose, so it explains a hang and is no fault by itself.
    """
    numbered = _numbered(job, group)
    return _first(numbered, group, lambda calls: {rank: c.at[-1:] for rank, c in calls.items()})


def _in_group(job: Job, group: str) -> Divergence | None:
    numbered = _numbered(job, group)
    found = _first(numbered, group, keys_of)
    is_swapped = found is not None and group != SET_UP and _is_swapped(numbered, found)
    return replace(found, kind="order") if found is not None and is_swapped else found


def _numbered(job: Job, group: str) -> Numbered:
    """Return the collectives of a group: rank -> number -> call."""
    members = set(job.group(group).ranks)
    return {
        rank: {call.number: call for call in process.calls if call.group == group and call.number}
        for rank, process in job.ranks.items()
        # Of a group whose members nobody recorded, every rank may be one.
        if rank in members or not members
    }


def _first(
    numbered: Numbered, group: str, keys_at: Callable[[Mapping[int, Call]], Mapping[int, object]]
) -> Divergence | None:
    for number in sorted({each for calls in numbered.values() for each in calls}):
        # A rank that has not come yet is late, which is no disagreement.
        calls = {rank: each[number] for rank, each in numbered.items() if number in each}
        keys = keys_at(calls)
        if len(set(keys.values())) > 1:
            return Divergence(_kind(calls), group, number, calls, odd_ranks(keys))
    return None


def keys_of(calls: Mapping[int, Call]) -> dict[int, Key]:
    """Return the key of each rank's call; of C++ calls no options are known, so none count."""
    keys = {rank: key_of(call) for rank, call in calls.items()}
    # torch's flight recorder keeps neither roots nor reductions.
    if any(call.is_native for call in calls.values()):
        return {rank: key[:2] for rank, key in keys.items()}
    return keys


def key_of(call: Call) -> Key:
    """Return what all ranks of a group have to agree on in a call."""
    if call.group == SET_UP:
        return (call.op, *(repr(value) for value in call.options.values()))
    # Elements and not shapes: ranks may view one buffer in different shapes.
    sizes = call.elements if call.op in SIZED else tuple(dtype for dtype, _ in call.elements[:1])
    return (call.op, sizes, call.options.get("root"), call.options.get("red"))


def _kind(calls: Mapping[int, Call]) -> str:
    each = list(calls.values())
    # What Python calls on one rank and C++ on another are two calls of the program.
    if len({(call.op, call.is_native) for call in each}) > 1:
        return "collective"
    if each[0].group == SET_UP:
        return "groups"
    if len({tuple(dtype for dtype, _ in call.elements) for call in each}) > 1:
        return "dtype"
    if len({call.elements for call in each}) > 1:
        return "shape"
    return "root" if len({call.options.get("root") for call in each}) > 1 else "reduction"


def odd_ranks(keys: Mapping[int, object]) -> tuple[int, ...]:
    """Return the ranks that differ from most others; all of them where there is no majority."""
    counted = Counter(keys.values()).most_common()
    # Two ranks against two: neither side is the odd one.
    if len(counted) > 1 and counted[0][1] == counted[1][1]:
        return tuple(keys)
    return tuple(rank for rank, key in keys.items() if key != counted[0][0])


def _is_swapped(numbered: Numbered, found: Divergence) -> bool:
    """Return whether what one rank calls here, another one calls a little later or before."""
    keys = {key_of(call): rank for rank, call in found.calls.items()}
    near = range(found.number + 1, found.number + LOOK_AHEAD)
    for key, rank in keys.items():
        for other in set(keys.values()) - {rank}:
            later = (numbered[other].get(number) for number in near)
            if any(call is not None and key_of(call) == key for call in later):
                return True
    return False


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
