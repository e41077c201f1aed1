"""Agents in processes of their own, one process for each running agent."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from areal.experimental.openai.errors import AgentProcessError

Answer = tuple[str, Any]


class AgentWorkers:
    """Runs agents in worker processes, so that one that blocks or crashes costs itself alone.

    Args:
        max_workers: Processes at most; further agents wait their turn.
    """

    def __init__(self, max_workers: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._free = asyncio.Semaphore(max_workers)
        self._idle: list[ProcessPoolExecutor] = []
        self._all: set[ProcessPoolExecutor] = set()
        self._is_closed = False

    async def run(self, agent: Any, data: dict[str, Any], environment: dict[str, str]) -> Any:
        """Return what ``agent.run(data)`` returns.

        Args:
            agent: Can be pickled.
            data: The row; can be pickled.
            environment: Variables of the process while the agent runs.

        Raises:
            AgentProcessError: The agent raised, its process ended, or what goes to it or comes back
                cannot be pickled.
        """
        name = type(agent).__name__
        async with self._free:
            worker = self._take()
            try:
                job = worker.submit(_run_agent, agent, data, environment)
                kind, answer = await asyncio.wrap_future(job)
            except BaseException as error:
                # Of a cancelled episode too: its agent must not go on beside the next one.
                self._kill(worker)
                if isinstance(error, BrokenProcessPool):
                    raise AgentProcessError(f"the process of {name} ended") from error
                if isinstance(error, Exception):
                    text = (
                        f"{name}, its row or its answer cannot be sent between processes: {error}"
                    )
                    raise AgentProcessError(text) from error
                raise
            self._idle.append(worker)
        if kind == "error":
            raise AgentProcessError(answer)
        return answer

    def close(self) -> None:
        """End all processes, for good."""
        self._is_closed = True
        for worker in list(self._all):
            self._kill(worker)
        self._idle.clear()

    def _take(self) -> ProcessPoolExecutor:
        if self._is_closed:
            raise AgentProcessError("the processes of agents have been ended")
        if self._idle:
            return self._idle.pop()
        worker = ProcessPoolExecutor(1, mp_context=self._context, initializer=_prepare_process)
        self._all.add(worker)
        return worker

    def _kill(self, worker: ProcessPoolExecutor) -> None:
        self._all.discard(worker)
        # The pool has no way to end a worker that is busy.
        processes = list((worker._processes or {}).values())
        for process in processes:
            _kill_group(process.pid)
            process.kill()
        worker.shutdown(wait=False, cancel_futures=True)


def _prepare_process() -> None:
    """Make this process end with the trainer, and with it whatever its agents started."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(parent_pid: int) -> None:
    parent = multiprocessing.parent_process()
    # A fork of the trainer may hold the pipe open that signals its end.
    while parent is not None and parent.is_alive() and os.getppid() == parent_pid:
        parent.join(1.0)
    _kill_group(os.getpid())
    os._exit(1)


def _kill_group(pid: int | None) -> None:
    if pid is not None and hasattr(os, "killpg"):
        # It has no group of its own before it is prepared.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _run_agent(agent: Any, data: dict[str, Any], environment: dict[str, str]) -> Answer:
    os.environ.update(environment)
    try:
        return "answer", asyncio.run(agent.run(data))
    except BaseException as error:  # an exit or a cancellation must not reach the trainer's loop
        # Not the exception itself: those of the SDK cannot be unpickled.
        trace = "".join(traceback.format_exception(error)[-3:])
        return "error", f"{type(agent).__name__} raised {type(error).__name__}: {error}\n{trace}"
