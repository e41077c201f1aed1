from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from areal.infra import AsyncTaskRunner, TaskQueueFullError, TimedResult


@pytest.fixture
def runner() -> Iterator[AsyncTaskRunner[Any]]:
    runner: AsyncTaskRunner[Any] = AsyncTaskRunner(max_queue_size=4)
    runner.initialize()
    yield runner
    runner.destroy()


async def _give(value: Any, delay_s: float = 0.0) -> Any:
    await asyncio.sleep(delay_s)
    return value


async def _fail() -> None:
    raise OSError("broken")


def test_results_come_oldest_first_with_their_ids(runner: AsyncTaskRunner[Any]) -> None:
    ids = [runner.submit(_give, n, delay_s=0.03 - 0.01 * n) for n in range(3)]
    results = runner.wait(3, with_timing=True)
    assert all(isinstance(result, TimedResult) for result in results)
    assert [result.data for result in results] == [0, 1, 2]
    assert [result.task_id for result in results] == ids == [0, 1, 2]
    assert results[0].create_time <= results[1].create_time


def test_a_finished_task_need_not_wait_for_an_older_one(runner: AsyncTaskRunner[Any]) -> None:
    release = asyncio.Event()

    async def held() -> str:
        await release.wait()
        return "held"

    async def let_go() -> str:
        release.set()
        return "let go"

    runner.submit(held)
    runner.submit(_give, "quick")
    assert runner.wait(1) == ["quick"]
    runner.submit(let_go)
    assert runner.wait(2) == ["held", "let go"]


def test_tasks_submitted_together_start_in_the_same_iteration(
    runner: AsyncTaskRunner[Any],
) -> None:
    order: list[str] = []

    async def step(name: int) -> None:
        order.append(f"start{name}")
        await asyncio.sleep(0)
        order.append(f"end{name}")

    runner.pause()
    for name in range(3):
        runner.submit(step, name)
    runner.resume()
    runner.wait(3)
    assert order == ["start0", "start1", "start2", "end0", "end1", "end2"]


def test_pause_holds_back_and_the_queue_has_a_bound(runner: AsyncTaskRunner[Any]) -> None:
    runner.pause()
    for number in range(4):
        runner.submit(_give, number)
    assert runner.get_input_queue_size() == 4
    with pytest.raises(TaskQueueFullError, match="4 tasks wait already"):
        runner.submit(_give, 5)
    with pytest.raises(TimeoutError, match=r"0 run, 4 wait to start \(paused\)"):
        runner.wait(1, timeout=0.02)
    runner.resume()
    assert runner.wait(4) == [0, 1, 2, 3]
    assert (runner.get_input_queue_size(), runner.get_output_queue_size()) == (0, 0)


def test_results_of_a_wait_that_timed_out_are_kept(runner: AsyncTaskRunner[Any]) -> None:
    runner.submit(_give, "a")
    with pytest.raises(TimeoutError, match="for 2 tasks, 1 are done"):
        runner.wait(2, timeout=0.1)
    assert runner.wait(1) == ["a"]


def test_ids_are_unique_among_the_running(runner: AsyncTaskRunner[Any]) -> None:
    assert runner.submit(_give, "a", 0.05, task_id=0) == 0
    assert runner.submit(_give, "b") == 1
    with pytest.raises(ValueError, match="task id 0 is in use"):
        runner.submit(_give, "c", task_id=0)
    runner.wait(2)
    assert runner.submit(_give, "d", task_id=0) == 0


def test_an_exception_reaches_the_waiting_thread(runner: AsyncTaskRunner[Any]) -> None:
    runner.submit(_fail)
    runner.submit(_give, "fine")
    with pytest.raises(OSError, match="broken"):
        runner.wait(2)
    assert runner.wait(1) == ["fine"]


def test_what_the_submitting_thread_has_set_does_not_leak_in(runner: AsyncTaskRunner[Any]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    variable.set("trainer's")

    async def look() -> str:
        return variable.get()

    runner.submit(look)
    assert runner.wait(1) == ["clean"]


def test_destroy_cancels_and_ends_the_thread() -> None:
    runner: AsyncTaskRunner[Any] = AsyncTaskRunner()
    runner.initialize()
    cancelled = threading.Event()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.sleep(3600)  # the second cancellation ends this

    runner.submit(stubborn)
    runner.submit(_give, 1)
    runner.wait(1)
    runner.destroy()
    assert cancelled.is_set()
    assert not any(thread.name == "areal-tasks" for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="not running"):
        runner.submit(_give, 1)


def test_a_waiting_thread_learns_of_the_end() -> None:
    runner: AsyncTaskRunner[Any] = AsyncTaskRunner()
    runner.initialize()
    threading.Timer(0.05, runner.destroy).start()
    with pytest.raises(RuntimeError, match="destroyed"):
        runner.wait(1)
