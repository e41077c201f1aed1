"""Processes of agents: what happens in them stays there, and none outlives its trainer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from areal.experimental.openai import AgentProcessError
from areal.experimental.openai.proxy.workers import AgentWorkers

ROOT = Path(__file__).parents[5]


class RaisingAgent:
    """Ends with whatever exception it is told."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def run(self, data: dict[str, Any]) -> float:
        raise self.error


class UnsendableAgent:
    """Returns what cannot be pickled."""

    async def run(self, data: dict[str, Any]) -> Any:
        return lambda: 1.0


class BusyAgent:
    """Starts a program, notes both processes in a file and never ends."""

    async def run(self, data: dict[str, Any]) -> float:
        return start_program_and_loop(Path(data["folder"]))


def start_program_and_loop(folder: Path) -> float:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    path = folder / str(os.getpid())
    path.with_suffix(".new").write_text(f"{os.getpid()} {program.pid}")
    path.with_suffix(".new").rename(path)
    while True:
        time.sleep(0.01)


def run(agent: Any, data: dict[str, Any] | None = None) -> Any:
    async def once() -> Any:
        workers = AgentWorkers(1)
        try:
            # A task of its own, as an episode is: a stray exit breaks out of the loop from there.
            return await asyncio.create_task(workers.run(agent, data or {}, {}))
        finally:
            workers.close()

    return asyncio.run(once())


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), OSError("disk")],
    ids=repr,
)
def test_whatever_an_agent_raises_is_one_error_here(error: BaseException) -> None:
    with pytest.raises(AgentProcessError, match=f"RaisingAgent raised {type(error).__name__}"):
        run(RaisingAgent(error))


@pytest.mark.parametrize("agent", [RaisingAgent(lambda: None), UnsendableAgent()])  # type: ignore[arg-type]
def test_what_cannot_be_pickled_is_said(agent: Any) -> None:
    with pytest.raises(AgentProcessError, match=r"cannot be sent between processes: .*lambda"):
        run(agent)


def test_no_process_starts_after_the_end() -> None:
    workers = AgentWorkers(1)
    workers.close()
    with pytest.raises(AgentProcessError, match="have been ended"):
        asyncio.run(workers.run(UnsendableAgent(), {}, {}))


def test_a_cancelled_agent_takes_its_programs_along(tmp_path: Path) -> None:
    async def cancel() -> None:
        workers = AgentWorkers(1)
        episode = asyncio.create_task(workers.run(BusyAgent(), {"folder": str(tmp_path)}, {}))
        await asyncio.to_thread(wait_for, lambda: noted(tmp_path))
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode
        workers.close()

    asyncio.run(cancel())
    wait_for(lambda: not any(map(is_running, noted(tmp_path))))


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are of POSIX")
def test_a_killed_trainer_leaves_no_process(tmp_path: Path) -> None:
    program = f"""
import asyncio
from {__name__.rpartition(".")[2]} import AgentWorkers, BusyAgent
if __name__ == "__main__":
    asyncio.run(AgentWorkers(1).run(BusyAgent(), {{"folder": {str(tmp_path / "pids")!r}}}, {{}}))
"""
    (tmp_path / "pids").mkdir()
    script = tmp_path / "trainer.py"
    script.write_text(program)
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    trainer = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": path}
    )
    wait_for(lambda: noted(tmp_path / "pids"))
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    wait_for(lambda: not any(map(is_running, noted(tmp_path / "pids"))))


def noted(folder: Path) -> list[int]:
    return [
        int(pid) for path in folder.iterdir() if not path.suffix for pid in path.read_text().split()
    ]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for(condition: Callable[[], Any], patience_s: float = 60) -> None:
    give_up_at = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.02)
