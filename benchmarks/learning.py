"""Whether GRPO learns the task on every seed, and how long a person waits for it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import read_train_rows, run_to_end, train_command
from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.targets import TARGETS
from benchmarks.warm_model import run_place, warm_up

# Steps whose mean reward counts as the start's and the end's; the trainer's own goal is a mean of
# ten as well.
START_STEPS = 3
END_STEPS = 10


@dataclass(frozen=True)
class Course:
    """What one seed did: mean rewards at both ends, steps, wall seconds of both commands."""

    seed: int
    first_reward: float
    last_reward: float
    num_steps: int
    sft_s: float
    grpo_s: float

    @property
    def has_learned(self) -> bool:
        """Whether all three bounds hold: where it began, where it ended, how long it took."""
        return (
            TARGETS["learning.start"].is_met(self.first_reward)
            and TARGETS["learning.end"].is_met(self.last_reward)
            and TARGETS["learning.time"].is_met(self.grpo_s)
        )

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.first_reward:.2f} -> {self.last_reward:.2f} in "
            f"{self.num_steps} steps, {self.grpo_s:.1f} s (warm-up {self.sft_s:.1f} s)"
        )


def run(settings: Settings) -> list[Result]:
    """Run warm-up and GRPO for each seed, as two ``areal train`` commands."""
    with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
        courses = [_course(settings, Path(scratch) / str(seed), seed) for seed in settings.seeds]
    count = len(courses)
    share = sum(course.has_learned for course in courses) / count
    return [
        Result(
            "learning.seeds",
            f"share of {count} seeds that learned within the bounds below",
            share,
            "",
            note="; ".join(map(str, courses)),
        ),
        Result(
            "learning.start",
            "reward at the start, highest seed",
            max(course.first_reward for course in courses),
            "",
            is_higher_better=False,
        ),
        Result(
            "learning.end",
            "reward at the end, lowest seed",
            min(course.last_reward for course in courses),
            "",
        ),
        Result(
            "learning.time",
            "wall time of the GRPO command, slowest seed",
            max(course.grpo_s for course in courses),
            "s",
            is_higher_better=False,
        ),
    ]


def _course(settings: Settings, folder: Path, seed: int) -> Course:
    model, sft_s = warm_up(settings, folder, seed, settings.learning_steps)
    overrides: dict[str, object] = {
        **run_place(folder, "grpo"),
        "actor.path": model,
        "seed": seed,
        "train_dataset.dataset_kwargs.seed": seed,
    }
    if settings.learning_steps is not None:
        overrides["total_train_steps"] = settings.learning_steps
    grpo_s = run_to_end(train_command(settings.grpo_config, overrides), folder / "grpo_process")
    stats = read_train_rows(folder / "benchmark" / "grpo" / "stats.jsonl")
    rewards = [row["reward"] for row in stats]
    first, last = rewards[:START_STEPS], rewards[-END_STEPS:]
    return Course(seed, sum(first) / len(first), sum(last) / len(last), len(rewards), sft_s, grpo_s)
