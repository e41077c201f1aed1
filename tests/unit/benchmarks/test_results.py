"""Verdicts, ratios and the table of the benchmarks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.overhead_table import to_results
from benchmarks.results import Result, format_number, format_table, missed
from benchmarks.targets import TARGETS, Target

FASTER = Target("ratio", ">=", 1.5)
SHORT_TIME = Target("measured", "<", 10.0)


@pytest.mark.parametrize(
    ("fields", "ratio", "verdict"),
    [
        ({"ours": 30.0, "reference": 20.0, "given_target": FASTER}, 1.5, "pass"),
        ({"ours": 29.0, "reference": 20.0, "given_target": FASTER}, 1.45, "FALLS SHORT"),
        ({"ours": 30.0, "given_target": FASTER}, None, "not measured"),
        ({"ours": None, "reference": 20.0, "given_target": FASTER}, None, "not measured"),
        ({"ours": 9.9, "is_higher_better": False, "given_target": SHORT_TIME}, None, "pass"),
        (
            {"ours": 10.0, "is_higher_better": False, "given_target": SHORT_TIME},
            None,
            "FALLS SHORT",
        ),
        ({"ours": 5.0, "reference": 20.0, "is_higher_better": False}, 4.0, ""),
        ({"ours": 5.0, "reference": 0.0}, None, ""),
    ],
)
def test_a_result_is_judged_by_its_target(
    fields: dict[str, Any], ratio: float | None, verdict: str
) -> None:
    result = Result("unknown.key", "what", unit="s", **fields)
    assert result.ratio == pytest.approx(ratio) if ratio is not None else result.ratio is None
    assert result.verdict == verdict
    assert missed([result]) == ([result] if verdict == "FALLS SHORT" else [])


def test_a_known_key_brings_its_target() -> None:
    key, target = next(iter(TARGETS.items()))
    assert Result(key, "what", 1.0, "").target is target


def test_a_result_survives_json() -> None:
    result = Result("k", "what", 3.0, "s", 2.0, "theirs", False, "note", Target("ratio", ">", 1.0))
    row = json.loads(json.dumps(result.to_json()))
    assert Result.from_json(row) == result
    assert row["verdict"] == "FALLS SHORT"
    assert row["ratio"] == pytest.approx(2 / 3)


def test_the_table_shows_number_reference_ratio_target_and_verdict() -> None:
    result = Result(
        "k", "speed", 2000.0, "tok/s", 1000.0, "theirs", note="spread", given_target=FASTER
    )
    lines = format_table([result]).splitlines()
    assert lines[0].split() == ["measured", "beside", "it", "ratio", "target", "verdict"]
    assert lines[2].split() == [
        "speed",
        "2,000",
        "tok/s",
        "1,000",
        "theirs",
        "2.00x",
        ">=",
        "1.5x",
        "pass",
    ]
    assert lines[3].strip() == "spread"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (24029.4, "24,029"),
        (545.5, "546"),
        (0.08361, "0.0836"),
        (1.0, "1"),
        (7.2e-7, "7.2e-07"),
        (0.0, "0"),
    ],
)
def test_numbers_keep_three_digits(value: float, text: str) -> None:
    assert format_number(value) == text


def test_figures_of_the_overhead_script_keep_their_targets() -> None:
    figure = {
        "name": "import",
        "value": 0.4,
        "unit": "s",
        "target": 0.3,
        "is_ceiling": True,
        "areal": "6.4",
    }
    second = {
        **figure,
        "name": "",
        "value": 5000.0,
        "target": None,
        "is_ceiling": False,
        "areal": "",
    }
    first, other = to_results([figure, second])
    assert (first.verdict, first.reference, first.ratio) == (
        "FALLS SHORT",
        6.4,
        pytest.approx(16.0),
    )
    assert (other.what, other.verdict, other.ratio) == ("import", "", None)
