"""Tests of ``my_rl.reward.plain_exact``."""

from __future__ import annotations

from typing import Any

import pytest
from areal.testing import check_hostile_texts, score

from my_rl.reward.plain_exact import plain_exact_reward_fn as reward_fn

# YOURS: add a completion of your own model, its answer and the reward it deserves
CASES = [
    ("2 + 3 makes 5, times 4.\ntwenty", "twenty", 1.0),
    ("twenty\nor rather twenty-one", "twenty", 0.0),
    ("  twenty  one \n\n", "twenty one", 1.0),
    ("TWENTY", "twenty", 1.0),
]


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: Any, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected


def test_any_text_has_a_reward_and_an_unusable_answer_none() -> None:
    check_hostile_texts(reward_fn, answer=CASES[0][1])
    with pytest.raises(ValueError, match="answer"):
        score(reward_fn, "20", answer="")
