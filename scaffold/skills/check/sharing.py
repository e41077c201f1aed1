"""Shares the documents of a pack among the cores, where the system can fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files

WORTHWHILE = 12
"""Fewer documents take no longer than a process that is made for them."""

_Task = TypeVar("_Task")


def work_through(
    tasks: Sequence[_Task], work: Callable[[_Task], Any], files: Files, num_cores: int = 0
) -> list[Any]:
    """Return what ``work`` gives for each task, in their order.

    Args:
        tasks: What is to be done.
        work: Does one of them, and gives plain data: numbers, texts, lists, dicts.
        files: The files that other processes read count as read here.
        num_cores: How many processes work at most; 0 means one on each core.
    """
    count = min(num_cores or _num_cores(), len(tasks) // WORTHWHILE)
    # A copy of a process with threads has their locks and not the threads that open them.
    if count < 2 or not hasattr(os, "fork") or threading.active_count() > 1:
        return [work(task) for task in tasks]
    # The others find in their copies of the memory what is loaded for the first one.
    found: list[Any] = [work(tasks[0]), *[None] * (len(tasks) - 1)]

    def part(number: int) -> tuple[list[Any], set[str]]:
        return [work(task) for task in tasks[1 + number :: count]], files.read

    for number, (rows, read) in enumerate(_parts(part, count)):
        found[1 + number :: count] = rows
        files.read |= read
    return found


def _parts(part: Callable[[int], Any], count: int) -> list[Any]:
    """Return all parts: the last one is made here, each other one by a process.

    What a process does not hand back is made here, and fails as it failed there.
    """
    import signal
    from multiprocessing import get_context  # 15 ms, which small packs do without

    context = get_context("fork")
    helpers: list[tuple[Any, Any]] = []
    try:
        for number in range(count - 1):
            answer, given = context.Pipe(duplex=False)
            helper = context.Process(target=_serve, args=(part, number, given), daemon=True)
            # Of Ctrl-C the first process hears, and ends the others, which are deaf from the start.
            heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                helper.start()
                helpers.append((helper, answer))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, heard)
            given.close()
        last = part(count - 1)
        return [*(_result(answer, part, at) for at, (_, answer) in enumerate(helpers)), last]
    finally:
        for helper, answer in helpers:
            answer.close()
            helper.kill()
            helper.join()


def _result(answer: Any, part: Callable[[int], Any], number: int) -> Any:
    try:
        return answer.recv()
    except EOFError:
        return part(number)


def _serve(part: Callable[[int], Any], number: int, given: Any) -> None:
    """Make a part and hand it back."""
    with suppress(Exception):
        given.send(part(number))


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
