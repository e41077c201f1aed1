"""Shares the documents of a pack among the cores, where the system can fork."""

from __future__ import annotations

import marshal
import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
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
        num_cores: How many processes work at most; 0 stands for one on each core.
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
    """Return all parts: the last one is made here, each other one by a process."""
    helpers: list[_Helper] = []
    try:
        with _uninterrupted():
            helpers.extend(_Helper(part, number) for number in range(count - 1))
        last = part(count - 1)
        return [*(each.result() for each in helpers), last]
    finally:
        for each in helpers:
            each.end()


class _Helper:
    """A process that makes one part and hands it back.

    Args:
        part: Makes a part by its number.
        number: Which one.
    """

    def __init__(self, part: Callable[[int], Any], number: int) -> None:
        self._part = part
        self._number = number
        self._pipe, write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(part, number, write_end)
        os.close(write_end)

    def result(self) -> Any:
        """Return the part; where the process failed, it is made here, and fails as it failed."""
        with open(self._pipe, "rb", closefd=False) as pipe:
            data = pipe.read()
        pid, self._pid = self._pid, 0
        _, status = os.waitpid(pid, 0)
        return marshal.loads(data) if status == 0 else self._part(self._number)

    def end(self) -> None:
        """End the process, if it has not come to its end."""
        import signal

        os.close(self._pipe)
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _serve(part: Callable[[int], Any], number: int, write_end: int) -> None:
    """Make a part, write it and end the process, without what others would do at its end."""
    status = 1
    try:
        data = marshal.dumps(part(number))
        with open(write_end, "wb") as pipe:
            pipe.write(data)
        status = 0
    finally:
        os._exit(status)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Keep Ctrl-C waiting; a process that begins in between never hears of it.

    The first process hears of it, and ends the others.
    """
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
