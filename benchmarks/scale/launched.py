"""What a run of several processes costs beside the same run in one."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.processes import ONE_THREAD, read_train_rows, running, train_command
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.warm_model import run_place

_LOOK_EVERY_S = 0.1
_BATCH_SIZE = 16
_LAYOUTS = {
    "one process": ("local:d1", "archon:d1"),
    "local:d2 + archon:d2": ("local:d2", "archon:d2"),
}


@dataclass
class _Usage:
    """Of a run's processes together; seconds and MB of 2**20 bytes."""

    first_step_s: float
    first_step_cpu_s: float
    cpu_s_per_row: float
    memory_mb: float


def launched(settings: Settings, model: Path, folder: Path) -> Iterator[Result]:
    """Yield start-up, CPU time and memory of a launched run, beside one process."""
    found: dict[str, list[_Usage]] = {name: [] for name in _LAYOUTS}
    for i in range(settings.cold_starts):
        for name, backends in _LAYOUTS.items():
            place = folder / f"{i}-{len(found[name])}-{backends[0].replace(':', '')}"
            found[name].append(_run(settings, model, place, *backends))
    one, several = found.values()
    for field, what, unit in (
        ("first_step_s", "from the command to the first step, local:d2 + archon:d2", "s"),
        ("first_step_cpu_s", "CPU of all processes until then", "s"),
        ("cpu_s_per_row", "CPU of all processes for a row of 8 samples", "s"),
        ("memory_mb", "memory of all processes at its peak (shares counted once)", "MB"),
    ):
        ours = [getattr(usage, field) for usage in several]
        yield Result(
            f"scale.launched.{field}",
            what,
            statistics.median(ours),
            unit,
            statistics.median(getattr(usage, field) for usage in one),
            "one process",
            is_higher_better=False,
            note=f"median of {len(ours)}",
        )


def _run(settings: Settings, model: Path, folder: Path, rollout: str, actor: str) -> _Usage:
    steps = settings.scale_steps
    overrides = run_place(folder, "run") | {
        "total_train_steps": steps,
        "actor.path": model,
        "rollout.backend": rollout,
        "actor.backend": actor,
        "train_dataset.batch_size": _BATCH_SIZE,
        "run.stop_at_reward": "null",
    }
    stats_file = folder / "benchmark" / "run" / "stats.jsonl"
    started = time.perf_counter()
    first_s: float | None = None
    first_cpu_s = 0.0
    cpu_s: dict[int, float] = {}
    memory_mb = 0.0
    command = train_command(settings.grpo_config, overrides)
    with running(command, folder / "process", {**ONE_THREAD}) as process:
        while process.poll() is None:
            memory_mb = max(memory_mb, _look(process.pid, cpu_s))
            if first_s is None and read_train_rows(stats_file):
                first_s = time.perf_counter() - started
                first_cpu_s = sum(cpu_s.values())
            time.sleep(_LOOK_EVERY_S)
    assert first_s is not None, "the run ended without a step"
    rows = (steps - 1) * _BATCH_SIZE
    return _Usage(first_s, first_cpu_s, (sum(cpu_s.values()) - first_cpu_s) / rows, memory_mb)


def _look(pid: int, cpu_s: dict[int, float]) -> float:
    """Note the CPU time of a process and all below it, and return their memory in MB."""
    memory = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [parent, *parent.children(recursive=True)]:
            # One may end while it is looked at.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = process.cpu_times()
                cpu_s[process.pid] = times.user + times.system
                memory += process.memory_full_info().pss
    return memory / 2**20
