from __future__ import annotations

import pytest

from areal.api.errors import EpisodeFailureError
from areal.api.failure_window import MAX_REASONS, FailureWindow, ReasonBook


def _fill(window: FailureWindow, outcomes: str) -> None:
    for outcome in outcomes:
        if outcome == "x":
            window.add_failure("ValueError: bad")
        else:
            window.add_success()


@pytest.mark.parametrize(
    ("outcomes", "is_tripped"),
    [
        ("x" * 63, False),
        ("x" * 64, True),
        ("x" * 32 + "." * 32, False),
        ("x" * 33 + "." * 31, False),  # the window is full only at the end, on a success
        ("." * 31 + "x" * 33, True),
        (".x" * 500, False),
        (".xx" * 60, True),
        ("." * 1000 + "x" * 33, True),
        ("." * 1000 + "x" * 32 + "." * 1000, False),
        ("x" * 64 + "." * 1000, True),  # it stays tripped
    ],
)
def test_trips_when_more_than_half_of_a_full_window_failed(outcomes: str, is_tripped: bool) -> None:
    window = FailureWindow("episodes")
    _fill(window, outcomes)
    if is_tripped:
        with pytest.raises(EpisodeFailureError):
            window.raise_if_tripped()
    else:
        window.raise_if_tripped()


def test_names_the_most_common_cause_and_counts_like_ones_together() -> None:
    window = FailureWindow("reward calls")
    for number in range(40):
        window.add_failure(f"ValueError: row {number} is bad")
    for _ in range(24):
        window.add_failure("TypeError: no")
    with pytest.raises(
        EpisodeFailureError, match=r"64 of 64 consecutive reward calls failed"
    ) as info:
        window.raise_if_tripped()
    assert "(40 times): ValueError: row 0 is bad" in str(info.value)


def test_reset_forgets() -> None:
    window = FailureWindow("episodes")
    _fill(window, "x" * 64)
    window.reset()
    window.raise_if_tripped()
    _fill(window, "x" * 63)
    window.raise_if_tripped()


def test_reasons_are_new_once_and_numbers_do_not_matter() -> None:
    book = ReasonBook()
    assert [book.add("ValueError", f"row {n} is bad") for n in range(3)] == [True, False, False]
    assert book.add("ValueError", "no column") is True
    assert book.counts == {"row # is bad": 3, "no column": 1}


def test_messages_that_always_differ_neither_fill_the_log_nor_the_memory() -> None:
    book = ReasonBook()
    messages = [f"cannot read {chr(97 + n % 26) * (n + 1)}" for n in range(99)]
    assert sum(book.add("ValueError", message) for message in messages) == MAX_REASONS + 1
    assert book.counts["ValueError, with many different messages"] == 99 - MAX_REASONS
    assert book.add("KeyError", "no answer") is True
