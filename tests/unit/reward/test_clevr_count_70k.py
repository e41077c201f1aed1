from __future__ import annotations

import pytest

from areal.api.errors import RewardError
from areal.reward.clevr_count_70k import clevr_count_70k_reward_fn


@pytest.mark.parametrize(
    ("completion", "answer", "reward"),
    [
        ("There are [3] spheres", "3", 1.0),
        ("There are [ 3 ] spheres", "3", 1.0),
        ("There are [3] spheres", "[3]", 1.0),
        ("There are [3] spheres", 3, 1.0),
        ("[2] first, then [3]", "3", 1.0),
        ("[3] first, then [2]", "3", 0.0),
        ("There are 3 spheres", "3", 0.0),
        ("[three]", "3", 0.0),
        ("[03]", "3", 0.0),
        ("", "3", 0.0),
    ],
)
def test_the_last_bracketed_number_counts(completion: str, answer: object, reward: float) -> None:
    assert clevr_count_70k_reward_fn("p", completion, [], [], answer=answer) == reward


@pytest.mark.parametrize("answer", ["", "three", None, "[]"])
def test_a_gold_answer_without_a_number_is_an_error(answer: object) -> None:
    with pytest.raises(RewardError, match="not a number"):
        clevr_count_70k_reward_fn("p", "[3]", [], [], answer=answer)
