"""Tests of ``my_rl.reward.present``."""

from __future__ import annotations

import pytest
from areal.testing import HOSTILE_TEXTS, score

from my_rl.reward.present import PATTERN
from my_rl.reward.present import present_reward_fn as reward_fn

CASES = [
    ('"{{7}}\\n', "20", 1.0),
    ("", "20", 0.0),
]

PROBES = [*HOSTILE_TEXTS, "The answer is 20.", "#### 20", "\\boxed{20}", "<answer>20</answer>"]


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected


@pytest.mark.parametrize("completion", PROBES, ids=range(len(PROBES)))
def test_scores_any_text_as_the_pattern_says(completion: str) -> None:
    reward = score(reward_fn, completion, answer="20")
    assert type(reward) is float
    assert reward == (1.0 if PATTERN.search(completion) else 0.0)
