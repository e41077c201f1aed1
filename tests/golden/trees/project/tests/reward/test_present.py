"""Tests of ``my_rl.reward.present``."""

from __future__ import annotations

import pytest

from my_rl.reward.present import PATTERN
from my_rl.reward.present import present_reward_fn as reward_fn

PROBES = [
    "",
    " \n\t",
    "The answer is 20.",
    "#### 20",
    "\\boxed{20}",
    "<answer>20</answer>",
    "\x00",
    "\\",
    "{{ answer }}",
    '\'"""',
    "\N{GRINNING FACE}" * 99,
    "9" * 9_999,
]


def score(completion: str, answer: object) -> float:
    return reward_fn("a question", completion, [1, 2], [3], answer=answer, level="extra column")


@pytest.mark.parametrize("completion", PROBES, ids=range(len(PROBES)))
def test_scores_any_text_as_the_pattern_says(completion: str) -> None:
    reward = score(completion, "20")
    assert type(reward) is float
    assert reward == (1.0 if PATTERN.search(completion) else 0.0)
