"""Shares the documents of a large pack among the cores, where the system can fork."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from scaffold.repository.files import Files

WORTHWHILE = 100
"""Fewer documents are checked sooner than a second process could take over half of them."""

_Task = TypeVar("_Task")
_Work = Callable[[int], tuple[list[Any], set[str]]]
# What a forked process finds in its copy of the memory; nothing of it has to be sent.
_shared: list[_Work] = []


def work_through(tasks: Sequence[_Task], work: Callable[[_Task], Any], files: Files) -> list[Any]:
    """Returns what ``work`` gives for each task, in their order.

    What it gives has to be picklable. The files that the other processes read count as read.
    """
    count = min(_num_cores(), len(tasks) // (WORTHWHILE // 2))
    if len(tasks) < WORTHWHILE or count < 2:
        return [work(task) for task in tasks]
    import multiprocessing

    try:
        context = multiprocessing.get_context("fork")
    except ValueError:  # Windows
        return [work(task) for task in tasks]

    def slice_of(number: int) -> tuple[list[Any], set[str]]:
        return [work(task) for task in tasks[number::count]], files.read

    _shared.append(slice_of)
    try:
        with context.Pool(count) as pool:
            slices = pool.map(_slice, range(count))
    finally:
        _shared.pop()
    found: list[Any] = [None] * len(tasks)
    for number, (rows, read) in enumerate(slices):
        found[number::count] = rows
        files.read |= read
    return found


def _slice(number: int) -> tuple[list[Any], set[str]]:
    return _shared[-1](number)


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
