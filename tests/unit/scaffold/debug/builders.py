"""Jobs for the tests, made of calls as ranks would have recorded them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scaffold.debug.diagnosis import Snapshot
from scaffold.debug.records import Call, Failure, Group, Job, Place, Process

NOW_S = 1000.0


def call(op: str = "all_reduce", number: int = 1, **fields: Any) -> Call:
    """Returns a call of the default group that has ended, on a line of the program."""
    given: dict[str, Any] = {
        "id": number,
        "group": "0",
        "tensors": (("float32", (4,)),),
        "at": (Place("train.py", 10, "step"),),
        "state": "done",
        "entered_s": float(number),
        "since_s": float(number),
        "issued_s": float(number),
    }
    return Call(number=number, op=op, **{**given, **fields})


def waiting(op: str = "all_reduce", number: int = 1, **fields: Any) -> Call:
    """Returns a call that somebody waits in."""
    return call(op, number, state="waiting", **fields)


def process(rank: int, calls: Collection[Call], **fields: Any) -> Process:
    """Returns a rank that has joined."""
    given = {"pid": 100 + rank, "joined": 0.5, "begun_s": 0.1, "world": 2}
    return Process(rank=rank, calls=list(calls), **{**given, **fields})


def job(*calls: Collection[Call], groups: tuple[Group, ...] = (), **fields: Any) -> Job:
    """Returns a job with the calls of each rank."""
    world = len(calls)
    ranks = {rank: process(rank, each, world=world, **fields) for rank, each in enumerate(calls)}
    for each in (Group("0", tuple(range(world)), "default_pg", "gloo"), *groups):
        for rank in each.ranks:
            ranks[rank].groups[each.name] = each
    return Job(world, ranks, [])


def snapshot(job: Job, alive: Collection[int] | None = None, **fields: Any) -> Snapshot:
    """Returns a moment of a job; all ranks are there where nothing else is said."""
    there = frozenset(job.ranks if alive is None else alive)
    return Snapshot(job, there, now_s=NOW_S, **fields)


def failure(type: str, message: str, at_s: float = 5.0) -> Failure:
    """Returns an exception that came from a line of the program."""
    return Failure(type, message, (Place("train.py", 20, "load"),), at_s)
