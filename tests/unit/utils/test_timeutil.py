"""When something periodic is due."""

from __future__ import annotations

from typing import Any

import pytest

from areal.api.cli_args import SaverConfig
from areal.utils import timeutil
from areal.utils.timeutil import EpochStepTimeFreqCtl, PeriodicTimer


def due_steps(last: int, steps_per_epoch: int = 5, first: int = 0, **frequencies: Any) -> list[int]:
    """Returns the steps up to ``last`` at which a timer that starts after ``first`` is due."""
    made = PeriodicTimer(SaverConfig(**frequencies), steps_per_epoch, first)
    return [step for step in range(first + 1, last + 1) if made.is_due(step)]


@pytest.mark.parametrize(
    ("frequencies", "expected"),
    [
        ({}, []),
        ({"freq_steps": 1}, list(range(1, 13))),
        ({"freq_steps": 4}, [4, 8, 12]),
        ({"freq_epochs": 1}, [5, 10]),
        ({"freq_epochs": 2}, [10]),
        ({"freq_epochs": 1, "freq_steps": 4}, [4, 5, 8, 10, 12]),
    ],
)
@pytest.mark.parametrize("first", [0, 3, 4, 7])
def test_a_resumed_timer_is_due_at_the_same_steps(
    frequencies: dict[str, Any], expected: list[int], first: int
) -> None:
    assert due_steps(12, first=first, **frequencies) == [s for s in expected if s > first]


def test_seconds_count_from_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(timeutil.time, "monotonic", lambda: now)
    made = PeriodicTimer(SaverConfig(freq_secs=10, freq_steps=6), 5)
    found = []
    for step in range(1, 9):
        now += 4.0
        if made.is_due(step):
            found.append(step)
    # At 12 s; by steps at 24 s, which is 12 s after that anyway; at 36 s.
    assert found == [3, 6]
    now += 4.0
    assert made.is_due(9)


def test_who_asks_again_after_a_step_gets_the_same_answer() -> None:
    made = PeriodicTimer(SaverConfig(freq_steps=2), 5)
    assert [made.is_due(step) for step in (1, 1, 2, 2, 3, 3, 4)] == [
        False,
        False,
        True,
        True,
        False,
        False,
        True,
    ]


def test_a_restored_timer_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(timeutil.time, "monotonic", lambda: now)
    first = PeriodicTimer(SaverConfig(freq_secs=10), 5)
    now += 6.0
    assert not first.is_due(3)
    state = first.state_dict()
    now += 1000.0
    second = PeriodicTimer(SaverConfig(freq_secs=10), 5)
    second.load_state_dict(state)
    now += 3.0
    assert not second.is_due(4)
    now += 1.0
    assert second.is_due(5)


def test_a_control_counts_what_each_check_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(timeutil.time, "monotonic", lambda: now)
    control = EpochStepTimeFreqCtl(freq_epoch=1, freq_step=3, freq_sec=50)
    assert [control.check(0, 1) for _ in range(4)] == [False, False, True, False]
    assert control.check(1, 0)
    other = EpochStepTimeFreqCtl(freq_epoch=1, freq_step=3, freq_sec=50)
    other.load_state_dict(control.state_dict())
    assert [other.check(0, 1) for _ in range(2)] == [False, True]
    now += 50
    assert other.check(0, 0)
    assert not other.check(0, 0)
