"""Agents in processes of their own, one process for each running agent."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
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

    async def run(self, agent: Any, data: dict[str, Any], environment: dict[str, str]) -> Any:
        """Returns what ``agent.run(data)`` returns.

        Args:
            agent: Can be pickled.
            data: The row; can be pickled.
            environment: Variables of the process while the agent runs.

        Raises:
            AgentProcessError: The agent raised, or its process ended.
        """
        async with self._free:
            worker = self._take()
            try:
                job = worker.submit(_run_agent, agent, data, environment)
                kind, answer = await asyncio.wrap_future(job)
            except BaseException as error:
                # Of a cancelled episode too: its agent must not go on beside the next one.
                self._kill(worker)
                if isinstance(error, BrokenProcessPool):
                    name = type(agent).__name__
                    raise AgentProcessError(f"the process of {name} ended") from error
                raise
            self._idle.append(worker)
        if kind == "error":
            raise AgentProcessError(answer)
        return answer

    def close(self) -> None:
        """Ends all processes."""
        for worker in list(self._all):
            self._kill(worker)
        self._idle.clear()

    def _take(self) -> ProcessPoolExecutor:
        if self._idle:
            return self._idle.pop()
        worker = ProcessPoolExecutor(1, mp_context=self._context)
        self._all.add(worker)
        return worker

    def _kill(self, worker: ProcessPoolExecutor) -> None:
        self._all.discard(worker)
        # The pool has no way to end a worker that is busy.
        processes = list((worker._processes or {}).values())
        for process in processes:
            process.kill()
        worker.shutdown(wait=False, cancel_futures=True)


def _run_agent(agent: Any, data: dict[str, Any], environment: dict[str, str]) -> Answer:
    os.environ.update(environment)
    try:
        return "answer", asyncio.run(agent.run(data))
    except Exception as error:
        # Not the exception itself: those of the SDK cannot be unpickled.
        trace = "".join(traceback.format_exception(error)[-3:])
        return "error", f"{type(agent).__name__} raised {type(error).__name__}: {error}\n{trace}"
