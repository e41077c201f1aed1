"""Commands that are measured from outside, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.settings import ROOT

POLL_S = 0.01
# What `areal` runs, by the interpreter that runs the benchmarks.
_AREAL = "from areal.trainer.cli import main; main()"
_TAIL_LINES = 15

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class ProcessError(RuntimeError):
    """A measured process failed."""


def train_command(config: Path, overrides: Mapping[str, object]) -> list[str]:
    """Return the command line of ``areal train``."""
    return [sys.executable, "-c", _AREAL, "train", "-c", str(config), *_pairs(overrides)]


def eval_command(config: Path, checkpoint: Path, overrides: Mapping[str, object]) -> list[str]:
    """Return the command line of ``areal eval``."""
    command = [sys.executable, "-c", _AREAL, "eval", "-c", str(config), str(checkpoint)]
    return command + _pairs(overrides)


def _pairs(overrides: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in overrides.items()]


@contextmanager
def running(
    command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a folder, its output in a file there, and ends it with the block.

    Args:
        command: Program and arguments.
        folder: Working folder; ``output.txt`` in it takes what the process says.
        env: Added to this process's environment.

    Raises:
        ProcessError: It failed; the message ends with the last lines it wrote.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        ),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **(env or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "output.txt"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
            process.wait()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        raise ProcessError(f"{' '.join(command[:6])} ... ended with {process.returncode}:\n{tail}")


def run_to_end(command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> float:
    """Run a command and returns its wall time in seconds, start-up included."""
    started = time.perf_counter()
    with running(command, folder, env) as process:
        process.wait()
    return time.perf_counter() - started


def run_counted(
    command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Run a command and return its wall seconds, and CPU seconds with those of its children.

    Nothing else that this process started may end meanwhile.
    """
    before = os.times()
    wall_s = run_to_end(command, folder, env)
    after = os.times()
    spent = after.children_user + after.children_system
    return wall_s, spent - before.children_user - before.children_system


def run_for_json(module: str, arguments: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run a module of this package with one thread and returns what it wrote.

    Its first argument is the file to write.
    """
    result = folder / "result.json"
    command = [sys.executable, "-m", module, str(result), *arguments]
    run_to_end(command, folder, ONE_THREAD)
    answer: dict[str, Any] = json.loads(result.read_text())
    return answer


def read_train_rows(stats_file: Path) -> list[dict[str, Any]]:
    """Return the statistics of the steps that ``areal train`` has written so far."""
    if not stats_file.exists():
        return []
    rows = [json.loads(line) for line in stats_file.read_text().splitlines() if line.endswith("}")]
    return [row["stats"] for row in rows if row["kind"] == "train"]
