"""Tests of ``my_rl.reward.last_line``."""

from __future__ import annotations

import pytest
from areal.testing import check_hostile_texts, score

from my_rl.reward.last_line import last_line_reward_fn as reward_fn

CASES = [
    ("2 + 3 makes 5, times 4.\ntwenty", "twenty", 1.0),
    ("twenty\nor rather twenty-one", "twenty", 0.0),
    ("  twenty  one \n\n", "twenty one", 1.0),
    ("TWENTY", "twenty", 0.0),
]


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected


def test_any_text_has_a_reward_and_an_unusable_answer_none() -> None:
    check_hostile_texts(reward_fn, answer="20")
    with pytest.raises(ValueError, match="answer"):
        score(reward_fn, "20", answer="")
