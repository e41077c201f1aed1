"""Tests of ``my_rl.reward.last_number``."""

from __future__ import annotations

import pytest

from my_rl.reward.last_number import last_number_reward_fn as reward_fn

CASES = [
    ("2 + 3 makes 5, and 5 times 4 makes 20.", "20", 1.0),
    ("It costs $1,020.50 in all", "1020.5", 1.0),
    ("First 20, but in the end 21", "20", 0.0),
    ("7 - 9 = -2", "-2", 1.0),
    ("no number", "20", 0.0),
    ("", "20", 0.0),
]

HOSTILE = [
    " \n\t",
    "\x00",
    "\\",
    "{{ answer }}",
    '\'"""',
    "\N{GRINNING FACE}" * 99,
    "9" * 9_999,
]


def score(completion: str, answer: object) -> float:
    return reward_fn("a question", completion, [1, 2], [3], answer=answer, level="extra column")


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(completion, answer) == expected


@pytest.mark.parametrize("completion", HOSTILE, ids=range(len(HOSTILE)))
def test_scores_any_text_with_a_plain_float(completion: str) -> None:
    reward = score(completion, "20")
    assert type(reward) is float
    assert reward == 0.0


def test_an_unusable_answer_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="answer"):
        score("20", "")
