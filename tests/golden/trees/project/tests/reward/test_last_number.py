"""Tests of ``my_rl.reward.last_number``."""

from __future__ import annotations

import pytest
from areal.testing import check_hostile_texts, score

from my_rl.reward.last_number import last_number_reward_fn as reward_fn

CASES = [
    ("2 + 3 makes 5, and 5 times 4 makes 20.", "20", 1.0),
    ("It costs $1,020.50 in all", "1020.5", 1.0),
    ("First 20, but in the end 21", "20", 0.0),
    ("7 - 9 = -2", "-2", 1.0),
    ("no number", "20", 0.0),
]


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected


def test_any_text_has_a_reward_and_an_unusable_answer_none() -> None:
    check_hostile_texts(reward_fn, answer="20")
    with pytest.raises(ValueError, match="answer"):
        score(reward_fn, "20", answer="")
