from __future__ import annotations

import pytest

from areal.api.errors import RewardError
from areal.reward.geometry3k import geometry3k_reward_fn


@pytest.mark.parametrize(
    ("completion", "answer", "reward"),
    [
        ("The side is [4].", "4", 1.0),
        ("[3] no, [4]", "4", 1.0),
        ("[4] no, [3]", "4", 0.0),
        (r"[2\sqrt{221}]", r"2 \sqrt { 221 }", 1.0),
        (r"[\sqrt{884}]", r"2 \sqrt { 221 }", 1.0),
        (r"[$\sqrt{884}$]", r"2 \sqrt { 221 }", 1.0),
        (r"[2\sqrt{222}]", r"2 \sqrt { 221 }", 0.0),
        (r"[\frac{9}{2}]", "4.5", 1.0),
        (r"so \boxed{4.5}", "4.5", 1.0),
        ("The side is 4.5 long", "4.5", 1.0),
        ("The side is 1,234", "1234", 1.0),
        ("From 4 follows 5", "4", 0.0),
        ("no number", "4", 0.0),
        ("", "4", 0.0),
        ("[]", "4", 0.0),
    ],
)
def test_the_bracketed_answer_counts(completion: str, answer: str, reward: float) -> None:
    assert geometry3k_reward_fn("p", completion, [], [], answer=answer, images=[b""]) == reward


def test_an_empty_gold_answer_is_an_error() -> None:
    with pytest.raises(RewardError, match="empty"):
        geometry3k_reward_fn("p", "[4]", [], [], answer=" ")
