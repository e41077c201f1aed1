"""From the command ``areal train`` to its first optimiser step, in wall seconds."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.clock import spread
from benchmarks.processes import POLL_S, read_train_rows, running, train_command
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.warm_model import run_place, warm_up


def run(settings: Settings) -> list[Result]:
    """Measure a warm-up from random weights, and GRPO from the model that a warm-up left."""
    waits: dict[str, list[float]] = {"sft": [], "grpo": []}
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        model, _ = warm_up(settings, Path(scratch) / "model", seed=1, steps=1)
        for i in range(settings.cold_starts):
            folder = Path(scratch) / str(i)
            waits["sft"].append(_wait_for_first_step(settings.sft_config, folder, "sft", {}))
            start = {"actor.path": model}
            waits["grpo"].append(_wait_for_first_step(settings.grpo_config, folder, "grpo", start))
    return [
        Result(
            f"cold_start.{kind}",
            f"cold `areal train` to the first optimiser step, {kind}",
            statistics.median(seconds),
            "s",
            is_higher_better=False,
            note=spread(seconds),
        )
        for kind, seconds in waits.items()
    ]


def _wait_for_first_step(
    config: Path, folder: Path, trial: str, overrides: dict[str, object]
) -> float:
    """Start a run of one step and returns the seconds until the step is in its statistics."""
    place = run_place(folder, trial)
    command = train_command(config, {**place, "total_train_steps": 1, **overrides})
    stats_file = folder / "benchmark" / trial / "stats.jsonl"
    started = time.perf_counter()
    with running(command, folder / f"{trial}_process") as process:
        while process.poll() is None and not read_train_rows(stats_file):
            time.sleep(POLL_S)
        return time.perf_counter() - started
