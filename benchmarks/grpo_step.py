"""One GRPO step, 16 prompts x 8 samples: this package's PPOTrainer beside TRL's GRPOTrainer.

Beside it stand a step of PPO with a critic and one of GRPO with images, of as many sequences.

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
GRPO = "the GRPO step above"
NO_TRL = "TRL is not installed here: pip install 'areal-lite[bench]'"


def run(settings: Settings) -> list[Result]:
    """Measure CPU seconds a step and the peak memory of the process."""
    sides = {
        "ours": ("benchmarks.grpo_areal", settings.grpo_config),
        "critic": ("benchmarks.grpo_areal", settings.ppo_config),
        "images": ("benchmarks.grpo_areal", settings.images_config),
    }
    if importlib.util.find_spec("trl") is not None:
        sides["trl"] = ("benchmarks.grpo_trl", settings.grpo_config)
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        model, _ = warm_up(settings, Path(scratch), seed=1, steps=settings.sft_steps)
        for i in range(settings.grpo_rounds):
            for side, (module, config) in sides.items():
                folder = Path(scratch) / f"{side}-{i}"
                # The pictures have a model of their own, made from scratch.
                arguments = ["" if side == "images" else str(model), str(config)]
                counts = [str(settings.warmup_steps), str(settings.train_steps)]
                runs[side].append(run_for_json(module, [*arguments, *counts], folder))
    results = _results(runs["ours"], runs.get("trl", []))
    beside = {
        "critic": "one PPO step with a critic, 128 prompts x 1 sample",
        "images": "one GRPO step with a picture a prompt, 16 prompts x 8 samples",
    }
    for side, title in beside.items():
        results += _results_beside(side, title, runs[side], runs["ours"])
    return results


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


def _results_beside(
    side: str, title: str, runs: list[dict[str, Any]], ours: list[dict[str, Any]]
) -> list[Result]:
    steps = _steps(runs)
    return [
        Result(
            f"grpo_step.{side}_cpu",
            title,
            statistics.median(steps),
            "CPU-s",
            statistics.median(_steps(ours)),
            GRPO,
            is_higher_better=False,
            note=spread(steps),
        ),
        Result(
            f"grpo_step.{side}_memory",
            "peak memory of its process",
            max(run["peak_memory_mb"] for run in runs),
            "MB",
            max(run["peak_memory_mb"] for run in ours),
            GRPO,
            is_higher_better=False,
        ),
    ]


def _steps(runs: list[dict[str, Any]]) -> list[float]:
    return [seconds for run in runs for seconds in run["cpu_seconds"]]
