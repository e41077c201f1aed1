"""Whether each trainer learns its task on every seed, and how long a person waits for it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import read_train_rows, run_to_end, train_command
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.targets import TARGETS
from benchmarks.warm_model import run_place, warm_up

# Steps whose mean counts as the start's and the end's; the trainer's own goal is a mean of ten as
# well. No row comes twice, so what a step reports was measured before it was trained on.
START_STEPS = 3
END_STEPS = 10
# What each trainer raises, under the name of its column.
SCORES = {"grpo": "reward", "ppo": "reward", "dpo": "accuracy", "rw": "accuracy"}
TITLES = {
    "grpo": "GRPO",
    "ppo": "PPO with a critic",
    "dpo": "DPO",
    "rw": "the reward model",
}


@dataclass(frozen=True)
class Course:
    """What one seed did: mean scores at both ends, steps, wall seconds of both commands."""

    trainer: str
    seed: int
    first: float
    last: float
    num_steps: int
    warm_up_s: float
    train_s: float

    @property
    def has_learned(self) -> bool:
        """Whether all bounds hold: where it began, where it ended, how long it took."""
        found = {"start": self.first, "end": self.last, "time": self.train_s}
        bounds = {name: TARGETS.get(f"learning.{self.trainer}.{name}") for name in found}
        return all(bound is None or bound.is_met(found[name]) for name, bound in bounds.items())

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.first:.2f} -> {self.last:.2f} in {self.num_steps} steps, "
            f"{self.train_s:.1f} s (warm-up {self.warm_up_s:.1f} s)"
        )


def run(settings: Settings) -> list[Result]:
    """Run the warm-up of each seed, then each trainer on its model, as ``areal train`` commands."""
    configs = {
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
                    **run_place(folder, trainer),
                    "actor.path": model,
                    "seed": seed,
                    "train_dataset.dataset_kwargs.seed": seed,
                }
                if settings.learning_steps is not None:
                    overrides["total_train_steps"] = settings.learning_steps
                process = folder / f"{trainer}_process"
                train_s = run_to_end(train_command(config, overrides), process)
                stats = read_train_rows(folder / "benchmark" / trainer / "stats.jsonl")
                scores = [row[SCORES[trainer]] for row in stats]
                first, last = scores[:START_STEPS], scores[-END_STEPS:]
                courses[trainer].append(
                    Course(
                        trainer,
                        seed,
                        sum(first) / len(first),
                        sum(last) / len(last),
                        len(scores),
                        warm_up_s,
                        train_s,
                    )
                )
    return [result for trainer, found in courses.items() for result in _results(trainer, found)]


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
            "wall time of the command, slowest seed",
            max(course.train_s for course in courses),
            "s",
            is_higher_better=False,
        ),
    ]
