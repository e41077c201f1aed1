"""The reward functions here stand at module level: workers import this file to get at them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from areal.api import reward_api
from areal.api.errors import (
    ConfigError,
    EpisodeFailureError,
    RewardError,
    RewardTimeoutError,
    RewardWorkerDiedError,
)
from areal.api.reward_api import REWARD_STATS, AsyncRewardWrapper, inline_reward
from areal.api.reward_pool.dispatcher import Call, Dispatcher
from areal.api.reward_pool.function import RewardFunction
from areal.api.reward_pool.launcher import Nursery

_ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _fresh_stats() -> Iterator[None]:
    REWARD_STATS.reset()
    yield
    REWARD_STATS.reset()


@pytest.fixture(scope="module", autouse=True)
def _no_workers_left() -> Iterator[None]:
    yield
    AsyncRewardWrapper.shutdown()


# --- rewards ----------------------------------------------------------------------------------


def give(value: Any) -> Any:
    return value


def give_special(name: str) -> Any:
    return {"numpy": np.float32(0.5), "numpy_bool": np.bool_(True), "array": np.array(2.0)}[name]


def give_unpicklable() -> Any:
    return lambda: None


def pid(*args: Any, **kwargs: Any) -> int:
    return os.getpid()


def size_of(data: bytes) -> int:
    return len(data)


def exit_hard(*args: Any) -> float:
    os._exit(3)


def kill_self() -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def kill_parent() -> float:
    os.kill(os.getppid(), signal.SIGKILL)
    return hang()


def fork_and_return(number: int) -> float:
    if os.fork():
        time.sleep(0.02)  # the copy is the first to return
    return number


def exit_politely() -> float:
    sys.exit("done")


def hang(*args: Any) -> float:
    while True:
        time.sleep(0.01)


def hang_without(value: float | None) -> float:
    return hang() if value is None else value


def hang_and_note(path: str) -> float:
    _note(path)
    return hang()


def eat_memory() -> float:
    hoard = []
    while True:
        hoard.append(b"x" * (16 << 20))


def raise_value_error(path: str) -> float:
    _note(path)
    raise ValueError(f"attempt {_count(path)}")


def fail_once(path: str, how: str) -> float:
    _note(path)
    if _count(path) == 1:
        {"raise": _raise, "exit": exit_hard, "hang": hang}[how]()
    return 0.25


def slow_once(path: str) -> float:
    _note(path)
    if _count(path) == 1:
        time.sleep(0.5)
    return 1.0


class PickyError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)


def raise_picky() -> float:
    raise PickyError(7, "cannot be unpickled")


async def async_reward(value: float) -> float:
    await asyncio.sleep(0)
    return value if os.getpid() == value else -1.0


async def async_hang() -> float:
    await asyncio.sleep(3600)
    return 0.0


async def async_own_timeout() -> float:
    raise TimeoutError("the judge did not answer")


def own_timeout() -> float:
    raise RewardTimeoutError("the answer took too long to compare")


class AsyncCallable:
    async def __call__(self) -> float:
        return 0.5


@inline_reward
def inline_pid(*args: Any) -> int:
    return os.getpid()


def _raise() -> None:
    raise OSError("once")


def _note(path: str) -> None:
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")


def _count(path: str) -> int:
    return len(Path(path).read_text().splitlines())


def _run(wrapper: Callable[..., Awaitable[float]], *args: Any, **kwargs: Any) -> float:
    async def main() -> float:
        return await wrapper(*args, **kwargs)

    return asyncio.run(main())


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_workers", [0, 1])
@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        (give, 1.5, 1.5),
        (give, 0, 0.0),
        (give, True, 1.0),
        (give, Fraction(1, 4), 0.25),
        (give_special, "numpy", 0.5),
        (give_special, "numpy_bool", 1.0),
        (give_special, "array", 2.0),
    ],
)
def test_a_number_becomes_a_float(
    max_workers: int, function: Callable[..., Any], argument: Any, expected: float
) -> None:
    reward = _run(AsyncRewardWrapper(function, max_workers=max_workers), argument)
    assert type(reward) is float
    assert reward == expected
    assert REWARD_STATS.export()["reward/failures"] == 0


@pytest.mark.parametrize("max_workers", [0, 1])
@pytest.mark.parametrize(
    ("function", "arguments", "shown"),
    [
        (give, [None], "returned None"),
        (give, ["1.0"], r"returned '1\.0' \(str\)"),
        (give, [[1.0]], r"returned \[1\.0\] \(list\)"),
        (give, [float("nan")], "returned nan"),
        (give, [float("-inf")], "returned -inf"),
        (give_unpicklable, [], r"returned <function .* \(function\)"),
    ],
)
def test_what_is_no_finite_number_is_an_error_that_names_the_function(
    max_workers: int, function: Callable[..., Any], arguments: list[Any], shown: str
) -> None:
    wrapper = AsyncRewardWrapper(function, max_workers=max_workers, max_retries=0)
    with pytest.raises(RewardError, match=rf"{function.__name__} {shown}"):
        _run(wrapper, *arguments)
    assert REWARD_STATS.export() == {
        "reward/calls": 1.0,
        "reward/failures": 1.0,
        "reward/timeouts": 0.0,
    }


def test_arguments_of_any_size_arrive() -> None:
    assert _run(AsyncRewardWrapper(size_of, max_workers=1), b"x" * 5_000_000) == 5_000_000


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("max_workers", [0, 1])
def test_an_exception_is_retried_and_the_last_one_raised(tmp_path: Path, max_workers: int) -> None:
    path = str(tmp_path / "attempts")
    wrapper = AsyncRewardWrapper(raise_value_error, max_workers=max_workers, max_retries=2)
    with pytest.raises(ValueError, match="attempt 3"):
        _run(wrapper, path)
    assert _count(path) == 3
    assert REWARD_STATS.export()["reward/failures"] == 1


@pytest.mark.parametrize(("how", "limit_s"), [("raise", 60), ("exit", 60), ("hang", 1)])
def test_an_attempt_after_a_failed_one_counts_as_success(
    tmp_path: Path, how: str, limit_s: float
) -> None:
    path = str(tmp_path / "attempts")
    wrapper = AsyncRewardWrapper(fail_once, timeout_seconds=limit_s, max_workers=1)
    assert _run(wrapper, path, how) == 0.25
    assert _count(path) == 2
    assert REWARD_STATS.export()["reward/failures"] == 0


def test_a_final_timeout_gives_zero_and_counts_as_a_failure(tmp_path: Path) -> None:
    path = str(tmp_path / "attempts")
    wrapper = AsyncRewardWrapper(hang_and_note, timeout_seconds=0.2, max_workers=1, max_retries=1)
    reward = _run(wrapper, path)
    assert type(reward) is float
    assert reward == 0.0
    assert _count(path) == 2
    assert REWARD_STATS.export() == {
        "reward/calls": 1.0,
        "reward/failures": 1.0,
        "reward/timeouts": 1.0,
    }


@pytest.mark.parametrize(
    ("function", "how"), [(exit_hard, "exited with status 3"), (kill_self, "SIGKILL")]
)
def test_a_crash_is_an_error_that_says_how_the_worker_ended(
    function: Callable[..., float], how: str
) -> None:
    wrapper = AsyncRewardWrapper(function, max_workers=1, max_retries=1)
    with pytest.raises(RewardWorkerDiedError, match=rf"{function.__name__} .*{how}"):
        _run(wrapper)


def test_a_crash_costs_no_other_call() -> None:
    async def main() -> list[Any]:
        crash = AsyncRewardWrapper(exit_hard, max_workers=1, max_retries=1)
        good = AsyncRewardWrapper(give, max_workers=1, max_retries=0)
        calls = [crash(i) if i % 10 == 5 else good(i) for i in range(40)]
        return await asyncio.gather(*calls, return_exceptions=True)

    for i, result in enumerate(asyncio.run(main())):
        if i % 10 == 5:
            assert isinstance(result, RewardWorkerDiedError)
        else:
            assert result == float(i)


def test_a_reward_that_kills_the_process_above_it_costs_no_other_call() -> None:
    async def main() -> list[Any]:
        killer = AsyncRewardWrapper(kill_parent, max_workers=4, max_retries=0)
        good = AsyncRewardWrapper(give, max_workers=4, max_retries=3)
        results = []
        for _ in range(3):
            calls = [killer() if i == 7 else good(i) for i in range(40)]
            results.append(await asyncio.gather(*calls, return_exceptions=True))
        return results

    for results in asyncio.run(main()):
        assert isinstance(results.pop(7), RewardWorkerDiedError)
        assert results == [float(i) for i in range(40) if i != 7]


@pytest.mark.timeout(30)
def test_a_process_that_ends_while_it_is_asked_for_a_worker_costs_no_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    fork_worker = Nursery.fork_worker

    def ends_at_first(nursery: Nursery, max_memory_bytes: int) -> socket.socket:
        asked.append(max_memory_bytes)
        if len(asked) == 1:
            raise BrokenPipeError(32, "Broken pipe")
        return fork_worker(nursery, max_memory_bytes)

    monkeypatch.setattr(Nursery, "fork_worker", ends_at_first)
    # A size that no other test takes, so that the pool has no worker yet.
    wrapper = AsyncRewardWrapper(give, max_workers=3, max_memory_bytes=3_333_000_000)

    async def main() -> float:
        return await wrapper(5)

    assert asyncio.run(main()) == 5.0
    assert len(asked) > 1


def test_an_idle_worker_gets_its_call_without_the_dispatcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wakes: list[None] = []
    wake = Dispatcher._wake
    monkeypatch.setattr(Dispatcher, "_wake", lambda self: wakes.append(None) or wake(self))

    async def main() -> list[float]:
        wrapper = AsyncRewardWrapper(give, max_workers=1)
        rewards = []
        for number in range(10):
            rewards.append(await wrapper(number))
            await asyncio.sleep(0.01)  # the dispatcher has handed out the reward and waits
        return rewards

    assert asyncio.run(main()) == list(range(10))
    assert len(wakes) == 1


@pytest.mark.parametrize("pause_s", [0.0, 1.2])  # after a second nobody looks after idle workers
def test_a_hanging_call_of_an_idle_worker_is_stopped(pause_s: float) -> None:
    async def main() -> list[float]:
        wrapper = AsyncRewardWrapper(
            hang_without, timeout_seconds=1.0, max_workers=1, max_retries=0
        )
        rewards = [await wrapper(1)]
        await asyncio.sleep(pause_s)
        return [*rewards, await wrapper(None), await wrapper(2)]

    assert asyncio.run(asyncio.wait_for(main(), 20)) == [1, 0, 2]


def test_a_worker_that_ended_while_it_was_idle_costs_no_call() -> None:
    async def main() -> list[float]:
        wrapper = AsyncRewardWrapper(pid, max_workers=1)
        first = await wrapper()
        os.kill(int(first), signal.SIGKILL)
        return [first, await wrapper()]

    first, second = asyncio.run(main())
    assert first != second
    assert REWARD_STATS.export()["reward/failures"] == 0


def test_calls_overtake_those_that_hang() -> None:
    async def main() -> tuple[list[float], list[bool]]:
        hanging = AsyncRewardWrapper(hang, timeout_seconds=60, max_workers=1, max_retries=0)
        good = AsyncRewardWrapper(give, max_workers=1, max_retries=0)
        stuck = [asyncio.create_task(hanging()) for _ in range(3)]
        await asyncio.sleep(0)
        rewards = await asyncio.gather(*[good(i) for i in range(20)])
        return rewards, [task.done() for task in stuck]

    rewards, were_done = asyncio.run(main())
    assert rewards == [float(i) for i in range(20)]
    assert were_done == [False] * 3
    AsyncRewardWrapper.shutdown()


def test_spares_have_a_bound() -> None:
    async def main() -> int:
        wrapper = AsyncRewardWrapper(hang, timeout_seconds=60, max_workers=1, max_retries=0)
        calls = [asyncio.create_task(wrapper()) for _ in range(12)]
        await asyncio.sleep(2.5)
        assert wrapper._pool is not None
        assert wrapper._pool._dispatcher is not None
        num_workers = len(wrapper._pool._dispatcher._workers)
        for call in calls:
            call.cancel()
        return num_workers

    assert 1 < asyncio.run(main()) <= 9
    AsyncRewardWrapper.shutdown()


def test_a_call_sent_ahead_is_taken_over_when_the_worker_gets_stuck(tmp_path: Path) -> None:
    path = str(tmp_path / "attempts")

    async def main() -> list[float]:
        good = AsyncRewardWrapper(give, max_workers=1, max_retries=0)
        stuck = AsyncRewardWrapper(slow_once, max_workers=1, max_retries=0)
        _note(path)
        await asyncio.gather(*[good(1) for _ in range(20)], *[stuck(path) for _ in range(20)])
        os.unlink(path)  # the next call is the slow one
        return await asyncio.gather(*[stuck(path) for _ in range(9)], *[good(2) for _ in range(9)])

    assert asyncio.run(main()) == [1.0] * 9 + [2.0] * 9


def test_memory_is_limited() -> None:
    wrapper = AsyncRewardWrapper(
        eat_memory, max_workers=1, max_retries=0, max_memory_bytes=400 << 20
    )
    with pytest.raises((MemoryError, RewardWorkerDiedError)):
        _run(wrapper)


def test_an_exception_that_cannot_be_pickled_keeps_its_name() -> None:
    wrapper = AsyncRewardWrapper(raise_picky, max_workers=1, max_retries=0)
    with pytest.raises(RewardError, match="raise_picky raised PickyError: cannot be unpickled"):
        _run(wrapper)


def test_an_exit_in_a_reward_is_an_error_of_that_call() -> None:
    wrapper = AsyncRewardWrapper(exit_politely, max_workers=1, max_retries=0)
    with pytest.raises(RewardError, match="raised SystemExit: done"):
        _run(wrapper)


def test_a_copy_that_a_reward_forks_answers_no_call() -> None:
    wrapper = AsyncRewardWrapper(fork_and_return, max_workers=1, max_retries=0)
    assert [_run(wrapper, number) for number in range(6)] == list(range(6))


def test_an_unpicklable_function_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="module-level function"):
        _run(AsyncRewardWrapper(lambda: 1.0, max_workers=1))
    assert REWARD_STATS.export()["reward/failures"] == 1


def test_an_unpicklable_argument_is_an_error() -> None:
    with pytest.raises(RewardError, match=r"argument of reward function .*give"):
        _run(AsyncRewardWrapper(give, max_workers=1), lambda: None)


@pytest.mark.parametrize(
    "arguments",
    [{"reward_fn": "no function"}, {"reward_fn": give, "max_workers": -1}],
)
def test_bad_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AsyncRewardWrapper(**arguments)


def test_mostly_failing_rewards_are_noticed() -> None:
    async def main() -> None:
        wrapper = AsyncRewardWrapper(give, max_workers=0, max_retries=0)
        await asyncio.gather(*[wrapper(None) for _ in range(64)], return_exceptions=True)

    asyncio.run(main())
    with pytest.raises(EpisodeFailureError, match=r"64 consecutive reward calls .*give returned"):
        REWARD_STATS.window.raise_if_tripped()


def test_deaths_that_are_noticed_together_are_each_handled_once(tmp_path: Path) -> None:
    path = str(tmp_path / "pids")
    Path(path).touch()

    async def main() -> list[Any]:
        dispatcher = Dispatcher(size=3, max_memory_bytes=0)  # its thread is played by this test
        loop, function = asyncio.get_running_loop(), RewardFunction(hang_and_note)
        payload = pickle.dumps(((path,), {}))
        calls = [Call(loop, function, payload, timeout_s=60) for _ in range(3)]
        for call in calls:
            dispatcher.put(call)
        while _count(path) < 3:
            dispatcher._step()
        assert dispatcher._nursery is not None
        dispatcher._nursery.process.kill()
        dispatcher._nursery.process.wait()
        _await_end(Path(path))  # so that the next round sees all four hang up
        dispatcher._step()
        outcomes = await asyncio.gather(*(call.future for call in calls), return_exceptions=True)
        dispatcher._close(RuntimeError("over"))
        dispatcher._wake_w.close()
        return outcomes

    for outcome in asyncio.run(main()):
        assert isinstance(outcome, RewardWorkerDiedError)


# --- in the event loop ------------------------------------------------------------------------


def test_functions_run_in_the_loop_where_they_should() -> None:
    here = os.getpid()
    assert _run(AsyncRewardWrapper(async_reward, max_workers=1), here) == here
    assert _run(AsyncRewardWrapper(AsyncCallable(), max_workers=1)) == 0.5
    assert _run(AsyncRewardWrapper(inline_pid, max_workers=1)) == here
    assert _run(AsyncRewardWrapper(pid, max_workers=0)) == here
    assert _run(AsyncRewardWrapper(pid, max_workers=1)) != here


def test_a_coroutine_has_a_time_limit_too() -> None:
    wrapper = AsyncRewardWrapper(async_hang, timeout_seconds=0.02, max_retries=1)
    assert _run(wrapper) == 0.0
    assert REWARD_STATS.export()["reward/timeouts"] == 1


def test_a_timeout_of_the_graders_own_is_an_exception() -> None:
    with pytest.raises(TimeoutError, match="the judge did not answer"):
        _run(AsyncRewardWrapper(async_own_timeout, max_retries=1))
    for max_workers in (0, 1):
        wrapper = AsyncRewardWrapper(own_timeout, max_workers=max_workers, max_retries=0)
        with pytest.raises(RewardTimeoutError, match="too long to compare"):
            _run(wrapper)
    assert REWARD_STATS.export()["reward/failures"] == 3


# --- life of the pool -------------------------------------------------------------------------


def test_the_pool_is_shared_by_size_and_outlives_event_loops() -> None:
    first = AsyncRewardWrapper(pid, max_workers=1)
    second = AsyncRewardWrapper(pid, max_workers=1)
    assert _run(first) == _run(second)
    assert AsyncRewardWrapper(pid, max_workers=2)._pool is not first._pool


def test_several_threads_share_the_pool() -> None:
    results: dict[int, list[float]] = {}

    def work(offset: int) -> None:
        async def main() -> list[float]:
            wrapper = AsyncRewardWrapper(give, max_workers=2)
            return await asyncio.gather(*[wrapper(offset + i) for i in range(100)])

        results[offset] = asyncio.run(main())

    threads = [threading.Thread(target=work, args=(offset,)) for offset in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {o: [float(o + i) for i in range(100)] for o in (0, 1000, 2000)}


def test_a_cancelled_call_leaves_the_pool_usable() -> None:
    async def main() -> float:
        wrapper = AsyncRewardWrapper(hang, timeout_seconds=30, max_workers=1)
        task = asyncio.create_task(wrapper())
        await asyncio.sleep(0.05)
        task.cancel()
        return await AsyncRewardWrapper(give, max_workers=1)(1)

    assert asyncio.run(main()) == 1.0
    AsyncRewardWrapper.shutdown()


def test_after_shutdown_old_wrappers_say_so_and_new_ones_work() -> None:
    wrapper = AsyncRewardWrapper(give, max_workers=1)
    assert _run(wrapper, 1) == 1.0
    AsyncRewardWrapper.shutdown()
    with pytest.raises(RuntimeError, match="ProcessPoolExecutor has been shut down"):
        _run(wrapper, 1)
    assert _run(AsyncRewardWrapper(give, max_workers=1), 2) == 2.0


def test_shutdown_fails_what_is_under_way() -> None:
    async def main() -> list[Any]:
        wrapper = AsyncRewardWrapper(hang, timeout_seconds=60, max_workers=1)
        calls = [asyncio.create_task(wrapper()) for _ in range(3)]
        await asyncio.sleep(0.1)
        AsyncRewardWrapper.shutdown()
        return await asyncio.gather(*calls, return_exceptions=True)

    for result in asyncio.run(main()):
        assert isinstance(result, RuntimeError)
        assert "shut down" in str(result)


def test_a_wrapper_can_be_pickled() -> None:
    wrapper = AsyncRewardWrapper(give, timeout_seconds=3, max_workers=1, max_retries=5)
    copy = pickle.loads(pickle.dumps(wrapper))
    assert (copy.timeout_seconds, copy.max_workers, copy.max_retries) == (3, 1, 5)
    assert copy._pool is wrapper._pool


@pytest.mark.parametrize(
    ("num_cores", "devices", "expected"),
    [(2, [], 1), (64, [], 4), (64, ["/dev/nvidia0"], 32), (64, ["/dev/nvidia0"] * 8, 4)],
)
def test_the_default_size_is_half_the_cores_of_a_device(
    monkeypatch: pytest.MonkeyPatch, num_cores: int, devices: list[str], expected: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: num_cores)
    monkeypatch.setattr(
        reward_api.glob, "glob", lambda pattern: devices if "nvidia" in pattern else []
    )
    assert AsyncRewardWrapper(give).max_workers == expected


# --- modules that workers import --------------------------------------------------------------


def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> Any:
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    return __import__(name)


def test_a_module_that_starts_threads_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import threading, time
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        def reward(): return threading.active_count()
    """
    module = _module(tmp_path, monkeypatch, "threads_at_import", source)
    AsyncRewardWrapper.shutdown()
    assert _run(AsyncRewardWrapper(module.reward, max_workers=1, max_retries=0)) == 2
    AsyncRewardWrapper.shutdown()


@pytest.mark.parametrize(
    ("statement", "shown"),
    [("raise OSError('no grader here')", "OSError: no grader here"), ("os._exit(5)", "status 5")],
)
def test_a_module_that_fails_in_the_worker_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, shown: str
) -> None:
    name = f"fails_in_worker_{len(statement)}"
    source = f"""
        import os
        if os.getpid() != {os.getpid()}: {statement}
        def reward(): return 1.0
    """
    module = _module(tmp_path, monkeypatch, name, source)
    wrapper = AsyncRewardWrapper(module.reward, max_workers=1, max_retries=1)
    with pytest.raises(RewardError if "status" in shown else ConfigError, match=shown):
        _run(wrapper)
    assert _run(AsyncRewardWrapper(give, max_workers=1), 4) == 4.0
    AsyncRewardWrapper.shutdown()


# --- programs ---------------------------------------------------------------------------------

_PROGRAM = """
    import asyncio, os, sys, time
    from areal.api.reward_api import AsyncRewardWrapper

    def note(path):
        with open(path, "a") as file:
            file.write(f"{os.getpid()} {os.getppid()}\\n")
        return 1.0

    def note_and_hang(path):
        note(path)
        while True:
            pass

    async def main(path):
        assert await AsyncRewardWrapper(note, max_workers=1)(path) == 1.0
        asyncio.create_task(AsyncRewardWrapper(note_and_hang, max_workers=1)(path))
        while len(open(path).readlines()) < 2:
            await asyncio.sleep(0.01)

    if __name__ == "__main__":
        asyncio.run(main(sys.argv[1]))
        print("ready", flush=True)
        if len(sys.argv) > 2:
            time.sleep(600)
"""


def _start(tmp_path: Path, *flags: str) -> tuple[subprocess.Popen[str], Path]:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(_PROGRAM))
    pids = tmp_path / "pids"
    env = os.environ | {"PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(program), str(pids), *flags],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, pids


def _await_end(pids: Path) -> None:
    """Returns once all processes whose ids were noted are gone; pytest's time limit bounds it."""
    for number in map(int, pids.read_text().split()):
        while _is_running(number):
            time.sleep(0.02)


def _is_running(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # an orphan that init has not reaped yet has ended all the same


@pytest.mark.timeout(30)
def test_a_program_ends_at_once_although_a_worker_hangs(tmp_path: Path) -> None:
    process, pids = _start(tmp_path)
    output, _ = process.communicate(timeout=50)
    assert (process.returncode, output) == (0, "ready\n")
    _await_end(pids)


@pytest.mark.timeout(30)
def test_workers_die_with_a_killed_program(tmp_path: Path) -> None:
    process, pids = _start(tmp_path, "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    _await_end(pids)


_FORKING_PROGRAM = """
    import asyncio, os
    from areal.api.reward_api import AsyncRewardWrapper

    def pid():
        return os.getpid()

    def compute(wrapper):
        async def main():
            return await wrapper()
        return asyncio.run(main())

    if __name__ == "__main__":
        wrapper = AsyncRewardWrapper(pid, max_workers=1)
        first = compute(wrapper)
        child = os.fork()
        if child == 0:
            os._exit(0 if compute(wrapper) != first else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert compute(wrapper) == first
        print("ok")
"""


@pytest.mark.timeout(30)
def test_a_forked_child_has_a_pool_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(_FORKING_PROGRAM))
    env = os.environ | {"PYTHONPATH": str(_ROOT)}
    result = subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stderr


def _program(tmp_path: Path, name: str, last_lines: str) -> str:
    source = f"""
        import asyncio
        from areal.api.reward_api import AsyncRewardWrapper

        def reward():
            return 3

        async def main():
            print(await AsyncRewardWrapper(reward, max_workers=1)())

        {last_lines}
    """
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return str(path)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("how", "last_lines", "shown"),
    [
        ("file", "if __name__ == '__main__': asyncio.run(main())", "3.0"),
        ("module", "if __name__ == '__main__': asyncio.run(main())", "3.0"),
        ("file", "asyncio.run(main())", "put what it runs behind if __name__ == '__main__'"),
        ("stdin", "asyncio.run(main())", "was defined in an interactive session"),
    ],
)
def test_a_reward_of_the_main_program(
    tmp_path: Path, how: str, last_lines: str, shown: str
) -> None:
    path = _program(tmp_path, "package/program.py", last_lines)
    command = {"file": [path], "module": ["-m", "package.program"], "stdin": ["-"]}[how]
    result = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        input=Path(path).read_text() if how == "stdin" else None,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown in result.stdout + result.stderr


def test_importing_the_wrapper_pulls_in_nothing_heavy() -> None:
    code = (
        "import sys; from areal.api import AsyncRewardWrapper; "
        "print([name for name in ('torch', 'numpy', 'multiprocessing') if name in sys.modules])"
    )
    env = os.environ | {"PYTHONPATH": str(_ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
