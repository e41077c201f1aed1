from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from areal.trainer.report.charts import line_chart, tick_texts
from areal.trainer.report.summary import Series

SVG_CLASSES = {"raw", "avg", "eval"}


def lines_of(svg: str) -> dict[str, list[tuple[float, float]]]:
    """Returns class to points of the drawn lines; fails where the SVG is not well formed."""
    root = ET.fromstring(svg)
    return {
        line.attrib["class"]: [
            (float(x), float(y)) for x, y in (p.split(",") for p in line.attrib["points"].split())
        ]
        for line in root.iter("polyline")
    }


def series(count: int, name: str = "loss") -> Series:
    return Series(name, list(range(1, count + 1)), [i / 7 for i in range(count)])


@pytest.mark.parametrize(
    ("count", "classes"), [(1, {"avg"}), (5, {"avg"}), (50, {"raw", "avg"}), (3000, {"raw", "avg"})]
)
def test_long_series_get_an_average_over_the_raw_values(count: int, classes: set[str]):
    assert set(lines_of(line_chart(series(count)))) == classes


def test_larger_values_are_drawn_higher_and_later_steps_further_right():
    (points,) = lines_of(line_chart(series(5))).values()
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))


@pytest.mark.parametrize("values", [[0.0] * 9, [-5.0] * 9, [1e-9, 2e-9] * 5, [1e12, -1e12] * 5])
def test_everything_is_drawn_inside_the_frame(values: list[float]):
    train = Series("loss", list(range(1, len(values) + 1)), values)
    evals = Series("loss", [0], [values[0]])
    drawn = lines_of(line_chart(train, evals, (340, 150), goal=values[0]))
    assert {(0 <= x <= 340, 0 <= y <= 150) for line in drawn.values() for x, y in line} == {
        (True, True)
    }


def test_a_run_with_evaluations_only_has_a_chart():
    svg = line_chart(Series("reward", [], []), Series("reward", [0], [0.5]))
    assert 'class="evaldot"' in svg


def test_goal_and_resumptions_are_marked():
    svg = line_chart(series(9), goal=2.0, resumed_at=[3, 5])
    assert (svg.count('class="goal"'), svg.count('class="mark"')) == (1, 2)


def test_a_name_with_markup_cannot_leave_its_attribute():
    svg = line_chart(Series('x"><script>', [1, 2], [1.0, 2.0]))
    assert "<script>" not in svg
    ET.fromstring(svg)


def test_the_pointer_reads_the_values_that_are_drawn():
    plot = json.loads(ET.fromstring(line_chart(series(5))).attrib["data-plot"])
    assert plot["steps"] == [1, 2, 3, 4, 5]
    assert plot["values"] == pytest.approx([i / 7 for i in range(5)], rel=1e-4)  # five digits


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([8000, 9000, 10000], ["8k", "9k", "10k"]),
        ([0, 0.5, 1], ["0", "0.5", "1"]),
        ([0, 2.5e7], ["0", "25M"]),
        ([-1e-6, 0], ["-1e-06", "0"]),
        ([500, 1500], ["500", "1500"]),
    ],
)
def test_tick_labels_share_a_unit(ticks: list[float], texts: list[str]):
    assert tick_texts(ticks) == texts
