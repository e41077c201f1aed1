from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def overhead(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(_BENCHMARKS))
    return importlib.import_module("overhead")


@pytest.mark.parametrize(
    ("value", "target", "is_ceiling", "is_missed"),
    [
        (5.0, None, False, False),
        (5.0, 5.0, False, False),
        (4.9, 5.0, False, True),
        (5.0, 5.0, True, False),
        (5.1, 5.0, True, True),
    ],
)
def test_a_line_knows_whether_its_target_is_missed(
    overhead: Any, value: float, target: float | None, is_ceiling: bool, is_missed: bool
) -> None:
    figure = overhead.Figure("name", value, "s", target, is_ceiling)
    assert figure.is_missed is is_missed
    assert ("MISSED" in str(figure)) is is_missed


def test_episodes_and_rewards_are_really_run(overhead: Any) -> None:
    pace = overhead.time_episodes(overhead.ReadyWorkflow(), overhead.InstantEngine([1]), 50, 8)
    assert pace.per_s > 0
    assert pace.cpu_us > 0
    assert overhead.time_rewards(overhead.rewards.trivial, 20, 4).per_s > 0
    overhead.AsyncRewardWrapper.shutdown()


@pytest.mark.slow
def test_the_whole_table_is_printed() -> None:
    command = [sys.executable, str(_BENCHMARKS / "overhead.py"), "--quick", "--no-fail"]
    result = subprocess.run(
        command, cwd=_BENCHMARKS.parent, capture_output=True, text=True, check=True
    )
    for line in ("reward inline, 1024 at once", "reward in the pool, 64", "5 ms rewards", "areal"):
        assert line in result.stdout
