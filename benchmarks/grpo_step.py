"""One GRPO step, 16 prompts x 8 samples: this package's PPOTrainer beside TRL's GRPOTrainer.

Each trainer runs in processes of its own, in turn, from the same warmed-up model, on the same
problems, with the same reward and limits, one thread. CPU seconds are those of whole steps, all
threads of the process together.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.clock import spread
from benchmarks.processes import run_for_json
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.warm_model import warm_up

TRL = "TRL GRPOTrainer"
NO_TRL = "TRL is not installed here: pip install 'areal-lite[bench]'"


def run(settings: Settings) -> list[Result]:
    """Measure CPU seconds a step and the peak memory of the process."""
    modules = ["benchmarks.grpo_areal"]
    has_trl = importlib.util.find_spec("trl") is not None
    if has_trl:
        modules.append("benchmarks.grpo_trl")
    runs: dict[str, list[dict[str, Any]]] = {module: [] for module in modules}
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        model, _ = warm_up(settings, Path(scratch), seed=1, steps=settings.sft_steps)
        for i in range(settings.grpo_rounds):
            for module in modules:
                folder = Path(scratch) / f"{module}-{i}"
                arguments = [str(model), str(settings.grpo_config)]
                counts = [str(settings.warmup_steps), str(settings.train_steps)]
                runs[module].append(run_for_json(module, [*arguments, *counts], folder))
    return _results(runs["benchmarks.grpo_areal"], runs.get("benchmarks.grpo_trl", []))


def _results(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[Result]:
    our_steps, their_steps = _steps(ours), _steps(theirs)
    our_peak = max(run["peak_memory_mb"] for run in ours)
    their_peak = max((run["peak_memory_mb"] for run in theirs), default=None)
    their_cpu = statistics.median(their_steps) if their_steps else None
    their_note = f"; TRL {spread(their_steps)}" if their_steps else f"; {NO_TRL}"
    answers = ", ".join(
        f"{run['trainer']} {run['mean_answer_tokens']:.2f}" for run in [*ours, *theirs]
    )
    return [
        Result(
            "grpo_step.cpu",
            "one GRPO step, 16 prompts x 8 samples",
            statistics.median(our_steps),
            "CPU-s",
            their_cpu,
            TRL,
            is_higher_better=False,
            note=f"{spread(our_steps)}{their_note}; tokens an answer: {answers}",
        ),
        Result(
            "grpo_step.memory",
            f"peak memory of the process, {len(our_steps) // len(ours)} steps and more",
            our_peak,
            "MB",
            their_peak,
            TRL,
            is_higher_better=False,
        ),
        Result(
            "grpo_step.memory_share",
            "the same, held against TRL in this run",
            our_peak,
            "MB",
            their_peak,
            TRL,
            is_higher_better=False,
            note="" if theirs else NO_TRL,
        ),
    ]


def _steps(runs: list[dict[str, Any]]) -> list[float]:
    return [seconds for run in runs for seconds in run["cpu_seconds"]]
