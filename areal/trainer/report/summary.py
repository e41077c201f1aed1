"""What the files of a run say, made ready for drawing: series, smoothing, the headline number."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from areal.trainer.report.records import EPISODES_FILE, RUN_FILE, STATS_FILE, read_rows

MEAN_STEPS = 10
"""Steps over which the number is averaged that a person sees of a run."""


class Metric(NamedTuple):
    """How a statistic is called in front of people."""

    title: str
    unit: str = ""


# In the order of the charts; a statistic that is not here follows under its own name.
METRICS: dict[str, Metric] = {
    "reward": Metric("Reward", "mean of the step's samples"),
    "loss": Metric("Loss", "mean of the step"),
    "accuracy": Metric("Chosen preferred", "fraction of pairs"),
    "margin": Metric("Margin", "chosen over rejected"),
    "tokens_per_s": Metric("Throughput", "tokens/s"),
    "gen_len": Metric("Answer length", "tokens"),
    "truncated_ratio": Metric("Truncated", "fraction of samples"),
    "flat_group_ratio": Metric("Groups without a signal", "fraction of groups"),
    "entropy": Metric("Entropy", "nats per token"),
    "staleness": Metric("Staleness", "weight versions behind"),
    "logp_abs_diff": Metric("Trainer against sampler", "nats per token"),
    "grad_norm": Metric("Gradient norm", "before clipping"),
    "clip_ratio": Metric("Clipped", "fraction of tokens"),
    "kl_reward": Metric("Penalty in the reward", "per token"),
    "reward_std": Metric("Spread of the reward", "standard deviation"),
    "advantage_abs": Metric("Size of the advantages", "mean per token"),
    "lr": Metric("Learning rate"),
    "step_time_s": Metric("Step time", "s"),
    "rollout_time_s": Metric("Waiting for rollouts", "s per step"),
    "rollout/accepted": Metric("Episodes accepted", "per step"),
    "rollout/rejected": Metric("Episodes rejected", "per step"),
    "rollout/failed": Metric("Episodes failed", "per step"),
    "reward/failures": Metric("Reward calls failed", "per step"),
}


class Series(NamedTuple):
    """One statistic over the run: equally long steps and values, all finite."""

    name: str
    steps: list[int]
    values: list[float]

    @property
    def metric(self) -> Metric:
        """How people call it."""
        return METRICS.get(self.name, Metric(self.name))


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run has written.

    Attributes:
        run: The content of ``run.json``: names, total steps, configuration, status.
        steps: The ``train`` rows, evals the ``eval`` rows, and so on, in the order written.
    """

    log_dir: Path
    run: Mapping[str, Any]
    steps: list[dict[str, Any]]
    evals: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    resumed_at: list[int]
    episodes: list[dict[str, Any]]

    @property
    def headline(self) -> str:
        """The statistic that the run is about: reward, accuracy of pairs, or the loss."""
        found = {name for row in (*self.steps, *self.evals) for name in row["stats"]}
        return next((name for name in ("reward", "accuracy") if name in found), "loss")

    def goal(self, name: str) -> float | None:
        """Return the bound of a statistic that ends the run; None where it has none."""
        return self.run.get(f"stop_at_{name}")

    @property
    def elapsed_s(self) -> float:
        """Wall time of the run, without the pauses between its processes."""
        return max((row["time_s"] for row in (*self.steps, *self.evals)), default=0.0)

    def series(self, name: str, of_evals: bool = False) -> Series:
        """Return one statistic of the train or eval rows, without what was not finite."""
        rows = self.evals if of_evals else self.steps
        points = [(row["step"], row["stats"].get(name)) for row in rows]
        kept = [(step, float(value)) for step, value in points if value is not None]
        return Series(name, [step for step, _ in kept], [value for _, value in kept])

    def names(self) -> list[str]:
        """Return the statistics of the train rows: known ones in their order, then the others."""
        found = {name for row in self.steps for name in row["stats"]}
        known = [name for name in METRICS if name in found]
        return known + sorted(found.difference(known))


def load_record(log_dir: Path) -> RunRecord:
    """Read what a run has written so far; a run that was killed reads as far as it came.

    Raises:
        FileNotFoundError: The folder holds no ``run.json``.
    """
    run_file = log_dir / RUN_FILE
    if not run_file.exists():
        raise FileNotFoundError(f"{log_dir} holds no {RUN_FILE}, so no run has written there")
    rows = read_rows(log_dir / STATS_FILE)
    of_kind = {
        kind: [r for r in rows if r["kind"] == kind] for kind in ("train", "eval", "warning")
    }
    return RunRecord(
        log_dir=log_dir,
        run=json.loads(run_file.read_text(encoding="utf-8")),
        steps=of_kind["train"],
        evals=of_kind["eval"],
        warnings=of_kind["warning"],
        resumed_at=[row["step"] for row in rows if row["kind"] == "resume"],
        episodes=read_rows(log_dir / EPISODES_FILE),
    )


def smooth(values: Sequence[float]) -> list[float] | None:
    """Return the mean of each value and the nine before it.

    Its last value is the number that the console prints, the page leads with, and
    the bound that ends a run is compared with.

    Returns:
        One value for each given; None where there are too few to smooth.
    """
    if len(values) < MEAN_STEPS:
        return None
    sums = [0.0, *itertools.accumulate(values)]
    starts = (max(0, end - MEAN_STEPS) for end in range(1, len(sums)))
    return [(sums[end] - sums[start]) / (end - start) for end, start in enumerate(starts, 1)]


def ends(series: Series) -> tuple[float, float] | None:
    """Return the means of the first and the last steps, or both values of a run too short."""
    if (means := smooth(series.values)) is not None:
        return means[MEAN_STEPS - 1], means[-1]
    return (series.values[0], series.values[-1]) if series.values else None


def thin(
    steps: Sequence[int], values: Sequence[float], limit: int
) -> tuple[list[int], list[float]]:
    """Return at most ``limit`` points that keep the lowest and highest of every stretch."""
    if len(steps) <= limit:
        return list(steps), list(values)
    stretches = max(1, limit // 2)
    kept: list[int] = []
    for i in range(stretches):
        stretch = range(i * len(steps) // stretches, (i + 1) * len(steps) // stretches)
        kept += sorted({min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)})
    return [steps[i] for i in kept], [values[i] for i in kept]


def value_range(train: Series, evals: Series, goal: float | None = None) -> tuple[float, float]:
    """Return what a value axis has to cover; a reward between 0 and 1 is shown between 0 and 1."""
    values = [*train.values, *evals.values, *([] if goal is None else [goal])]
    low, high = min(values), max(values)
    if train.name == "reward" and low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers that cover the range, end included; at least two.

    Raises:
        ValueError: The range is not finite or upside down.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"no axis covers {low} to {high}")
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    raw = (high - low) / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]
