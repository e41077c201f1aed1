"""Tests of ``areal.reward.plain_math``."""

from __future__ import annotations

import pytest

from areal.reward.plain_math import plain_math_reward_fn as reward_fn
from areal.testing import check_hostile_texts, score

CASES = [
    ("so we get \\boxed{20}", "20", 1.0),
    ("so we get \\boxed{21}", "20", 0.0),
    ("that is \\boxed{\\frac{1}{2}}", "0.5", 1.0),
    ("that is \\boxed{2x + 2}", "$2(x + 1)$", 1.0),
    ("first \\boxed{20}, no: \\boxed{21}", "21", 1.0),
    ("2 times 10 makes 20.", "20", 1.0),
    ("I do not know", "20", 0.0),
]


def test_an_unusable_answer_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="answer"):
        score(reward_fn, "\\boxed{20}", answer="")


def test_scores_any_text() -> None:
    check_hostile_texts(reward_fn, answer="20")


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected
