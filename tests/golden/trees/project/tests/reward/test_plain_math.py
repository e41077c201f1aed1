"""Tests of ``my_rl.reward.plain_math``."""

from __future__ import annotations

import pytest

from my_rl.reward.plain_math import plain_math_reward_fn as reward_fn

CASES = [
    ("so we get \\boxed{20}", "20", 1.0),
    ("so we get \\boxed{21}", "20", 0.0),
    ("that is \\boxed{\\frac{1}{2}}", "0.5", 1.0),
    ("that is \\boxed{2x + 2}", "$2(x + 1)$", 1.0),
    ("first \\boxed{20}, no: \\boxed{21}", "21", 1.0),
    ("2 times 10 makes 20.", "20", 1.0),
    ("I do not know", "20", 0.0),
    ("", "20", 0.0),
]

HOSTILE = [
    " \n\t",
    "\x00",
    "\\",
    "\\boxed{",
    "\\frac{1}{0}",
    "{{ answer }}",
    '\'"""',
    "\N{GRINNING FACE}" * 99,
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
