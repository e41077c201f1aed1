from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from areal.experimental.trinity.threads import EpisodeThreads, LoopPost

_number: ContextVar[int] = ContextVar("number")


def test_a_function_runs_in_another_thread_with_the_context_of_its_task() -> None:
    async def run() -> tuple[int, int]:
        _number.set(7)
        post = LoopPost(asyncio.get_running_loop())
        return await EpisodeThreads().run(lambda: (_number.get(), threading.get_ident()), post)

    number, thread = asyncio.run(run())
    assert number == 7
    assert thread != threading.get_ident()


def test_a_free_thread_is_used_again() -> None:
    async def run() -> set[int]:
        threads, post = EpisodeThreads(), LoopPost(asyncio.get_running_loop())
        return {await threads.run(threading.get_ident, post) for _ in range(5)}

    assert len(asyncio.run(run())) == 1


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), StopIteration("x")])
def test_what_a_function_raises_reaches_whoever_waits(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def run() -> None:
        await EpisodeThreads().run(fail, LoopPost(asyncio.get_running_loop()))

    with pytest.raises((ValueError, RuntimeError), match=r"x|SystemExit: 3|StopIteration"):
        asyncio.run(run())
