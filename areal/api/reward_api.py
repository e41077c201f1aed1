"""Rewards without fear: any Python function as a reward, whatever it does."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import inspect
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from areal.api.errors import ConfigError, RewardError, RewardTimeoutError
from areal.api.failure_window import FailureWindow, ReasonBook
from areal.api.reward_pool.dispatcher import SHUT_DOWN, AttemptTimeoutError
from areal.api.reward_pool.function import RewardFunction, function_name
from areal.api.reward_pool.pool import RewardPool
from areal.api.reward_pool.worker import InvalidRewardError, to_reward

logger = logging.getLogger("AsyncRewardWrapper")

F = TypeVar("F", bound=Callable[..., Any])
_INLINE_MARK = "__areal_inline_reward__"
_DEFAULT_NUM_DEVICES = 8
MAX_MEMORY_VARIABLE = "AREAL_REWARD_MAX_MEMORY_MB"


def reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    **kwargs: Any,
) -> float:
    """Show the signature that the built-in workflows call a reward function with.

    A workflow of one's own may call its reward with whatever arguments it likes.

    Args:
        prompt: The prompt as text.
        completions: The completion as text.
        prompt_ids: The tokens of the prompt.
        completion_ids: The tokens of the completion.
        **kwargs: All columns of the dataset row, such as ``answer``.

    Returns:
        One finite number.
    """
    raise NotImplementedError("reward_fn shows a signature; write a function of your own")


def inline_reward(function: F) -> F:
    """Mark a reward function as quick and safe enough to run in the event loop, without the pool.

    There it costs microseconds, but it has no time limit and holds up everything while it runs.
    """
    setattr(function, _INLINE_MARK, True)
    return function


class RewardStats:
    """Counts reward calls of all wrappers: a failed call is not a reward of 0.0."""

    def __init__(self) -> None:
        self.window = FailureWindow("reward calls")
        self._lock = threading.Lock()
        self._reasons = ReasonBook()
        self._calls = self._failures = self._timeouts = 0

    def add_success(self) -> None:
        """Count a call that gave a reward."""
        with self._lock:
            self._calls += 1
        self.window.add_success()

    def add_failure(self, name: str, error: BaseException) -> None:
        """Count a call that gave none on its last attempt, and log each kind of failure once."""
        kind = type(error).__name__
        cause = f"reward function {name}: {kind}: {error}"
        is_timeout = isinstance(error, RewardTimeoutError)
        with self._lock:
            self._calls += 1
            self._failures += 1
            self._timeouts += is_timeout
            is_new = self._reasons.add(kind, cause)
        self.window.add_failure(cause)
        if is_new:
            logger.warning("%s (logged once)", cause, exc_info=None if is_timeout else error)

    def export(self, reset: bool = True) -> dict[str, float]:
        """Return the counts since the last call: ``reward/calls``, ``/failures``, ``/timeouts``.

        A time-out is a failure too.
        """
        with self._lock:
            counts = {
                "reward/calls": float(self._calls),
                "reward/failures": float(self._failures),
                "reward/timeouts": float(self._timeouts),
            }
            if reset:
                self._calls = self._failures = self._timeouts = 0
        return counts

    def reset(self) -> None:
        """Forget everything, as at the start of a run."""
        self.export()
        self.window.reset()
        with self._lock:
            self._reasons.reset()


REWARD_STATS = RewardStats()


class AsyncRewardWrapper:
    """Turns a reward function into ``await wrapper(*args, **kwargs) -> float``.

    The function runs in a pool of processes that all wrappers with the same ``max_workers`` share,
    so it, its arguments and its exceptions are pickled. A call that hangs, crashes its process or
    fills the memory ends alone: its worker is killed and replaced. A call that takes longer than
    0.2 s, such as a judge's, gives its place in the pool to a spare worker, of which there are up
    to ``max(8, 2 * max_workers)``. Coroutine functions, functions marked ``@inline_reward`` and,
    with ``max_workers=0``, all functions run in the calling event loop instead.

    Args:
        reward_fn: Returns a number; see ``reward_fn`` for what built-in workflows call it with.
        timeout_seconds: How long one attempt may run; waiting for a worker is not counted.
        max_workers: Size of the pool; None takes half of this machine's cores per accelerator.
        max_retries: How many attempts follow a failed one.
        max_memory_bytes: What one worker may allocate; None takes the environment variable
            ``AREAL_REWARD_MAX_MEMORY_MB``, else half of the machine's memory; 0 is no limit.
    """

    _pools: ClassVar[dict[tuple[int, int], RewardPool]] = {}
    _pools_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        reward_fn: Callable[..., Any],
        timeout_seconds: float = 15,
        max_workers: int | None = None,
        max_retries: int = 3,
        *,
        max_memory_bytes: int | None = None,
    ) -> None:
        if not callable(reward_fn):
            raise ConfigError(f"a reward function must be callable, not {reward_fn!r}")
        self.reward_fn = reward_fn
        self.timeout_seconds = timeout_seconds
        self.max_workers = default_num_workers() if max_workers is None else max_workers
        self.max_retries = max_retries
        self.max_memory_bytes = max_memory_bytes
        self.name = function_name(reward_fn)
        self._is_async = _is_coroutine_function(reward_fn)
        self._is_inline = self._is_async or self.max_workers == 0 or _is_marked_inline(reward_fn)
        self._function: RewardFunction | None = None
        self._pool = None if self._is_inline else self._shared_pool()

    async def __call__(self, *args: Any, **kwargs: Any) -> float:
        """Compute one reward.

        Returns:
            A finite float; 0.0 if the last attempt ran out of time, which is counted as a failure.

        Raises:
            Exception: Whatever the last attempt raised.
            RewardError: The last attempt returned no finite number.
            RewardWorkerDiedError: The worker's process ended in the last attempt.
            ConfigError: The function cannot run in another process.
            RuntimeError: The pool has been shut down.
        """
        try:
            reward = await self._with_retries(args, kwargs)
        except AttemptTimeoutError as error:
            REWARD_STATS.add_failure(self.name, error)
            return 0.0
        except Exception as error:
            REWARD_STATS.add_failure(self.name, error)
            raise
        REWARD_STATS.add_success()
        return reward

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.reward_fn, self.timeout_seconds, self.max_workers, self.max_retries)
        return _rebuild, (*arguments, self.max_memory_bytes)

    @classmethod
    def shutdown(cls) -> None:
        """Kill the workers of all pools; wrappers made before no longer work."""
        with cls._pools_lock:
            pools = list(cls._pools.values())
            cls._pools.clear()
        for pool in pools:
            pool.shutdown()

    async def _with_retries(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        for attempt in range(self.max_retries + 1):
            try:
                if self._is_inline:
                    return await self._run_inline(args, kwargs)
                return await self._run_in_pool(args, kwargs)
            except ConfigError:
                raise
            except Exception as error:
                is_over = isinstance(error, RuntimeError) and str(error) == SHUT_DOWN
                if is_over or attempt == self.max_retries:
                    raise
        raise ConfigError(f"max_retries must not be negative, but is {self.max_retries}")

    async def _run_in_pool(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        if self._function is None:
            self._function = RewardFunction(self.reward_fn)
        assert self._pool is not None
        return await self._pool.submit(self._function, args, kwargs, self.timeout_seconds)

    async def _run_inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        value = self.reward_fn(*args, **kwargs)
        if type(value) is not float and inspect.isawaitable(value):
            limit = asyncio.timeout(self.timeout_seconds)
            try:
                async with limit:
                    value = await value
            except TimeoutError as error:
                if not limit.expired():
                    raise  # the function's own
                message = f"reward function {self.name} ran longer than {self.timeout_seconds:g} s"
                raise AttemptTimeoutError(message) from error
        try:
            return to_reward(value)
        except InvalidRewardError as error:
            raise RewardError(f"reward function {self.name} {error}") from None

    def _shared_pool(self) -> RewardPool:
        if self.max_workers < 0:
            raise ConfigError(f"max_workers must not be negative, but is {self.max_workers}")
        memory = self.max_memory_bytes
        memory = _default_max_memory_bytes() if memory is None else memory
        key = (self.max_workers, memory)
        with self._pools_lock:
            if key not in self._pools:
                self._pools[key] = RewardPool(*key)
            return self._pools[key]


def _rebuild(
    reward_fn: Callable[..., Any],
    timeout_seconds: float,
    max_workers: int,
    max_retries: int,
    max_memory_bytes: int | None,
) -> AsyncRewardWrapper:
    return AsyncRewardWrapper(
        reward_fn, timeout_seconds, max_workers, max_retries, max_memory_bytes=max_memory_bytes
    )


def default_num_workers() -> int:
    """Return half of the cores that fall to one accelerator of this machine, at least 1."""
    devices = glob.glob("/dev/nvidia[0-9]*") or glob.glob("/dev/davinci[0-9]*")
    num_devices = len(devices) or _DEFAULT_NUM_DEVICES
    return max((os.cpu_count() or 1) // num_devices // 2, 1)


def _default_max_memory_bytes() -> int:
    megabytes = os.environ.get(MAX_MEMORY_VARIABLE)
    if megabytes is not None:
        if not megabytes.isdecimal():
            raise ConfigError(f"{MAX_MEMORY_VARIABLE} must be a whole number, not {megabytes!r}")
        return int(megabytes) << 20
    limits = []
    with contextlib.suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    # Of a container; "max" where there is none.
    with contextlib.suppress(ValueError, OSError), open("/sys/fs/cgroup/memory.max") as file:
        limits.append(int(file.read()))
    return min(limits, default=0) // 2


def _is_coroutine_function(function: Any) -> bool:
    call = getattr(type(function), "__call__", None)  # noqa: B004  (its value is wanted)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _is_marked_inline(function: Any) -> bool:
    inner = getattr(function, "func", function)
    return getattr(inner, _INLINE_MARK, False) is True
