"""Whether each trainer learns its task on every seed, and what that costs.

The cost is CPU seconds of the whole command, start-up and report included, on one thread. Wall time
says how busy the machine is with other work: a run of 122 CPU seconds took 368 s beside others. On
a machine with nothing else to do the two are nearly one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.processes import (
    ONE_THREAD,
    eval_command,
    read_train_rows,
    run_counted,
    run_to_end,
    train_command,
)
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.targets import TARGETS
from benchmarks.warm_model import run_place, warm_up

# Steps whose mean counts as the start's and the end's; the trainer's own goal is a mean of ten as
# well. No row comes twice, so what a step reports was measured before it was trained on.
START_STEPS = 3
END_STEPS = 10
# What each trainer raises: the column of its steps, or what `areal eval` finds on held-out rows
# where the steps have a loss alone.
SCORES = {
    "sft": "reward",
    "grpo": "reward",
    "ppo": "reward",
    "dpo": "accuracy",
    "rw": "accuracy",
}
TITLES = {
    "sft": "SFT",
    "grpo": "GRPO",
    "ppo": "PPO with a critic",
    "dpo": "DPO",
    "rw": "the reward model",
}
# The warm-up taught doubts in three answers of five; these rows have none.
SFT_OVERRIDES: dict[str, object] = {
    "run.model": "null",
    "train_dataset.dataset_kwargs.unsure_share": 0,
    "actor.optimizer.lr": 5e-4,
    "total_train_steps": 150,
}
# What `areal eval` takes: problems of the other split, and the likeliest answer to each.
HELD_OUT: dict[str, object] = {
    "valid_dataset.path": "arithmetic",
    "valid_dataset.type": "rl",
    "valid_dataset.batch_size": 64,
    "eval_gconfig.greedy": "true",
}


@dataclass(frozen=True)
class Course:
    """What one seed did: mean scores at both ends, steps, seconds of both commands."""

    trainer: str
    seed: int
    first: float
    last: float
    num_steps: int
    warm_up_s: float
    wall_s: float
    cpu_s: float

    @property
    def has_learned(self) -> bool:
        """Whether all bounds hold: where it began, where it ended, what it cost."""
        found = {"start": self.first, "end": self.last, "time": self.cpu_s}
        bounds = {name: TARGETS.get(f"learning.{self.trainer}.{name}") for name in found}
        return all(bound is None or bound.is_met(found[name]) for name, bound in bounds.items())

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.first:.2f} -> {self.last:.2f} in {self.num_steps} steps, "
            f"{self.cpu_s:.1f} CPU-s ({self.wall_s:.0f} s of wall time; warm-up "
            f"{self.warm_up_s:.0f} s)"
        )


def run(settings: Settings) -> list[Result]:
    """Run the warm-up of each seed, then each trainer on its model, as ``areal train`` commands."""
    configs = {
        "sft": settings.sft_config,
        "grpo": settings.grpo_config,
        "ppo": settings.ppo_config,
        "dpo": settings.dpo_config,
        "rw": settings.rw_config,
    }
    courses: dict[str, list[Course]] = {trainer: [] for trainer in configs}
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        for seed in settings.seeds:
            folder = Path(scratch) / str(seed)
            model, warm_up_s = warm_up(settings, folder, seed, settings.learning_steps)
            for trainer, config in configs.items():
                overrides: dict[str, object] = {
                    **run_place(folder, f"{trainer}_course"),
                    "actor.path": model,
                    "seed": seed,
                    "train_dataset.dataset_kwargs.seed": seed,
                }
                if trainer == "sft":
                    overrides |= SFT_OVERRIDES
                if settings.learning_steps is not None:
                    overrides["total_train_steps"] = settings.learning_steps
                command = train_command(config, overrides)
                wall_s, cpu_s = run_counted(command, folder / f"{trainer}_process", ONE_THREAD)
                trained = folder / "benchmark" / f"{trainer}_course"
                stats = read_train_rows(trained / "stats.jsonl")
                if trainer == "sft":
                    first, last = (
                        _held_out_reward(settings, folder, each)
                        for each in (model, trained / "model")
                    )
                else:
                    scores = [row[SCORES[trainer]] for row in stats]
                    first, last = fmean(scores[:START_STEPS]), fmean(scores[-END_STEPS:])
                course = Course(trainer, seed, first, last, len(stats), warm_up_s, wall_s, cpu_s)
                print(f"  {TITLES[trainer]}, {course}", file=sys.stderr, flush=True)
                courses[trainer].append(course)
    return [result for trainer, found in courses.items() for result in _results(trainer, found)]


def _held_out_reward(settings: Settings, folder: Path, model: Path) -> float:
    """Return the share of held-out problems whose likeliest answer is right."""
    overrides = {**run_place(folder, model.parent.name), **HELD_OUT}
    process = folder / f"eval_{model.parent.name}"
    run_to_end(eval_command(settings.grpo_config, model, overrides), process, ONE_THREAD)
    (scores,) = (folder / "benchmark" / model.parent.name / "eval").rglob("scores.json")
    return float(json.loads(scores.read_text())["scores"]["reward"])


def _results(trainer: str, courses: list[Course]) -> list[Result]:
    title, score = TITLES[trainer], SCORES[trainer]
    share = sum(course.has_learned for course in courses) / len(courses)
    return [
        Result(
            f"learning.{trainer}.seeds",
            f"{title}: share of {len(courses)} seeds that learned within the bounds below",
            share,
            "",
            note="; ".join(map(str, courses)),
        ),
        Result(
            f"learning.{trainer}.start",
            f"{score} at the start, highest seed",
            max(course.first for course in courses),
            "",
            is_higher_better=False,
        ),
        Result(
            f"learning.{trainer}.end",
            f"{score} at the end, lowest seed",
            min(course.last for course in courses),
            "",
        ),
        Result(
            f"learning.{trainer}.time",
            "CPU time of the command, slowest seed",
            max(course.cpu_s for course in courses),
            "CPU-s",
            is_higher_better=False,
        ),
    ]
