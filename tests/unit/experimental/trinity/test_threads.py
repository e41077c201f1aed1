from __future__ import annotations

import asyncio
import queue
import threading
import time
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


def test_a_thread_whose_loop_was_closed_meanwhile_serves_the_next_one() -> None:
    threads, is_closed = EpisodeThreads(), threading.Event()

    async def leave() -> None:
        post = LoopPost(asyncio.get_running_loop())
        job = asyncio.create_task(threads.run(is_closed.wait, post))
        await asyncio.sleep(0.02)
        job.cancel()

    async def run() -> int:
        return await asyncio.wait_for(
            threads.run(lambda: 7, LoopPost(asyncio.get_running_loop())), 5
        )

    asyncio.run(leave())
    is_closed.set()
    while not threads._idle:  # its thread has found the loop closed, or is about to
        time.sleep(0.001)
    time.sleep(0.02)
    assert asyncio.run(run()) == 7


def _boxes(count: int) -> list[queue.SimpleQueue[int]]:
    return [queue.SimpleQueue() for _ in range(count)]


def test_threads_wake_one_after_the_other_and_the_last_one_wakes_the_loop() -> None:
    async def run() -> None:
        post, boxes, calls = LoopPost(asyncio.get_running_loop()), _boxes(3), []
        for number, box in enumerate(boxes):
            post.send(box, number)
        for number in range(3):
            await asyncio.sleep(0)
            assert [box.qsize() for box in boxes] == [1] * (number + 1) + [0] * (2 - number)
            assert not calls
            post.call(calls.append, number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert calls == [0, 1, 2]
        post.send(boxes[0], 3)  # as before, and without a wait
        await asyncio.sleep(0)
        assert boxes[0].qsize() == 2

    asyncio.run(run())


def test_a_thread_that_makes_no_call_holds_up_nobody_for_long() -> None:
    async def run() -> None:
        post, boxes, calls = LoopPost(asyncio.get_running_loop()), _boxes(4), []
        for number, box in enumerate(boxes):
            post.send(box, number)
        await asyncio.sleep(0)
        post.call(calls.append, 0)  # of the first, which wakes the second, and that goes to sleep
        await asyncio.sleep(0.02)
        assert [box.qsize() for box in boxes] == [1] * 4
        assert calls == [0]

    asyncio.run(run())


def test_a_call_after_the_end_of_the_loop_is_refused_and_still_wakes_the_next() -> None:
    async def run() -> tuple[LoopPost, list[queue.SimpleQueue[int]]]:
        post, boxes = LoopPost(asyncio.get_running_loop()), _boxes(2)
        for number, box in enumerate(boxes):
            post.send(box, number)
        await asyncio.sleep(0)
        return post, boxes

    post, boxes = asyncio.run(run())
    with pytest.raises(RuntimeError, match="closed"):
        post.call(print)
    assert [box.qsize() for box in boxes] == [1, 1]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), StopIteration("x")])
def test_what_a_function_raises_reaches_whoever_waits(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def run() -> None:
        await EpisodeThreads().run(fail, LoopPost(asyncio.get_running_loop()))

    with pytest.raises((ValueError, RuntimeError), match=r"x|SystemExit: 3|StopIteration"):
        asyncio.run(run())
