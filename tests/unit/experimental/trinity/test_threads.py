from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from areal.experimental.trinity.threads import EpisodeThreads

_number: ContextVar[int] = ContextVar("number")


def test_a_function_runs_in_another_thread_with_the_context_of_its_task() -> None:
    async def run() -> tuple[int, int]:
        _number.set(7)
        return await EpisodeThreads().run(lambda: (_number.get(), threading.get_ident()))

    number, thread = asyncio.run(run())
    assert number == 7
    assert thread != threading.get_ident()


def test_a_free_thread_is_used_again() -> None:
    async def run() -> set[int]:
        threads = EpisodeThreads()
        return {await threads.run(threading.get_ident) for _ in range(5)}

    assert len(asyncio.run(run())) == 1


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), StopIteration("x")])
def test_what_a_function_raises_reaches_whoever_waits(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError), match=r"x|SystemExit: 3|StopIteration"):
        asyncio.run(EpisodeThreads().run(fail))
