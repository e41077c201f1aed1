"""Tests of ``my_rl.reward.last_line``."""

from __future__ import annotations

import pytest

from my_rl.reward.last_line import last_line_reward_fn as reward_fn

CASES = [
    ("2 + 3 makes 5, times 4.\ntwenty", "twenty", 1.0),
    ("twenty\nor rather twenty-one", "twenty", 0.0),
    ("  twenty  one \n\n", "twenty one", 1.0),
    ("TWENTY", "twenty", 0.0),
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
