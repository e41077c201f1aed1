from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from areal.trainer.report.summary import (
    Series,
    ends,
    load_record,
    nice_ticks,
    smooth,
    thin,
    value_range,
)


def test_each_point_is_the_mean_of_the_last_ten():
    smoothed = smooth([float(i) for i in range(100)])
    assert smoothed is not None
    assert len(smoothed) == 100
    assert smoothed[:3] == [0.0, 0.5, 1.0]
    assert smoothed[9:] == pytest.approx([i - 4.5 for i in range(9, 100)])
    assert ends(Series("reward", [], [float(i) for i in range(100)])) == (4.5, 94.5)


def test_smoothing_narrows_noise_and_keeps_the_level():
    rng = random.Random(3)
    values = [0.5 + rng.gauss(0, 0.1) for _ in range(400)]
    smoothed = smooth(values)
    assert smoothed is not None
    assert max(smoothed) - min(smoothed) < 0.3 * (max(values) - min(values))
    assert sum(smoothed) / 400 == pytest.approx(sum(values) / 400, abs=0.01)  # only ends weigh more


@pytest.mark.parametrize("count", [0, 1, 9])
def test_few_points_are_not_smoothed(count: int):
    assert smooth([1.0] * count) is None


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 5000])
def test_thinning_keeps_the_extremes_and_the_order(count: int):
    rng = random.Random(count)
    steps = list(range(1, count + 1))
    values = [rng.random() for _ in steps]
    kept_steps, kept_values = thin(steps, values, 400)
    assert len(kept_steps) == len(kept_values) <= 400
    assert kept_steps == sorted(set(kept_steps))
    assert (min(kept_values), max(kept_values)) == (min(values), max(values))
    assert all(
        values[step - 1] == value for step, value in zip(kept_steps, kept_values, strict=True)
    )


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0.39, 1.02), (-3.2e-7, 4e-6), (8000, 10400), (5, 5), (0, 0), (-2, -2), (1e-12, 1e9)],
)
def test_ticks_cover_the_range_evenly(low: float, high: float):
    ticks = nice_ticks(low, high, count=4)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 7
    gaps = [b - a for a, b in itertools.pairwise(ticks)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps), abs=1e-12)


def test_ticks_without_a_range_are_refused():
    with pytest.raises(ValueError, match="no axis covers"):
        nice_ticks(0.0, float("nan"))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("reward", [0.4, 0.9], (0.0, 1.0)),
        ("reward", [-0.5, 0.9], (-0.5, 0.9)),
        ("reward", [0.4, 3.0], (0.4, 3.0)),
        ("loss", [0.4, 0.9], (0.4, 0.9)),
    ],
)
def test_a_reward_between_0_and_1_is_shown_on_the_whole_scale(
    name: str, values: list[float], expected: tuple[float, float]
):
    assert value_range(Series(name, [1, 2], values), Series(name, [], [])) == expected


def test_a_record_sorts_the_rows_by_kind(tmp_path: Path):
    rows = [
        {"kind": "eval", "step": 0, "time_s": 0.5, "stats": {"reward": 0.1}},
        {
            "kind": "train",
            "step": 1,
            "time_s": 1.0,
            "stats": {"zeta": 1, "loss": None, "reward": 0.2},
        },
        {"kind": "resume", "step": 1, "time_s": 1.0},
        {"kind": "warning", "step": 1, "time_s": 1.0, "code": "c", "text": "t"},
        {"kind": "train", "step": 2, "time_s": 2.0, "stats": {"alpha": 1, "loss": 0.3}},
    ]
    (tmp_path / "stats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "run.json").write_text('{"title": "t"}')
    record = load_record(tmp_path)
    assert record.series("loss") == Series("loss", [2], [0.3])
    assert record.series("reward", of_evals=True) == Series("reward", [0], [0.1])
    assert record.names() == ["reward", "loss", "alpha", "zeta"]
    assert (record.headline, record.elapsed_s, record.resumed_at) == ("reward", 2.0, [1])
    assert record.warnings[0]["code"] == "c"


def test_a_folder_without_a_run_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"holds no run\.json"):
        load_record(tmp_path)
