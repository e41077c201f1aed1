"""Tests of ``my_rl.reward.captured``."""

from __future__ import annotations

import pytest
from areal.testing import HOSTILE_TEXTS, score

from my_rl.reward.captured import PATTERN
from my_rl.reward.captured import captured_reward_fn as reward_fn

CASES = [
    ("<answer>7</answer>", "7", 1.0),
    ("<answer>7</answer>", "not 7", 0.0),
]

PROBES = [*HOSTILE_TEXTS, "The answer is 20.", "#### 20", "\\boxed{20}", "<answer>20</answer>"]


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(reward_fn, completion, answer=answer) == expected


@pytest.mark.parametrize("completion", PROBES, ids=range(len(PROBES)))
def test_scores_any_text_as_the_pattern_says(completion: str) -> None:
    found = [match.group(min(1, PATTERN.groups)) for match in PATTERN.finditer(completion)]
    last = (found[-1] or "").strip() if found else ""
    assert score(reward_fn, completion, answer="an answer that no probe holds") == 0.0
    if last:
        assert score(reward_fn, completion, answer=last) == 1.0


def test_an_unusable_answer_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="answer"):
        score(reward_fn, "20", answer="")
