from __future__ import annotations

import pytest

from areal.api.errors import RewardError
from areal.reward.arithmetic import arithmetic_reward_fn


@pytest.mark.parametrize(
    ("completion", "answer", "reward"),
    [
        ("46", "46", 1.0),
        (" 46 \n", "46", 1.0),
        ("46", 46, 1.0),
        ("-4", "-4", 1.0),
        ("046", "46", 1.0),
        ("47", "46", 0.0),
        ("-46", "46", 0.0),
        ("4 6", "46", 0.0),
        ("46 47", "46", 0.0),
        ("46.", "46", 0.0),
        ("46=46", "46", 0.0),
        ("", "46", 0.0),
        ("?", "46", 0.0),
        ("9" * 5000, "46", 0.0),
    ],
)
def test_only_the_exact_integer_scores(completion: str, answer: object, reward: float) -> None:
    assert arithmetic_reward_fn("12+34=", completion, [], [], answer=answer) == reward


@pytest.mark.parametrize("answer", ["", "4.5", "x", None])
def test_a_gold_answer_that_is_no_integer_is_an_error(answer: object) -> None:
    with pytest.raises(RewardError, match="not an integer"):
        arithmetic_reward_fn("1+1=", "2", [], [], answer=answer)
