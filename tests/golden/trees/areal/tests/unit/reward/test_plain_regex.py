"""Tests of ``areal.reward.plain_regex``."""

from __future__ import annotations

import pytest

from areal.reward.plain_regex import PATTERN
from areal.reward.plain_regex import plain_regex_reward_fn as reward_fn
from areal.testing import HOSTILE_TEXTS, score

# YOURS: add completions of your own model, with the answer and the reward they deserve
CASES = [
    ("The answer is 20.", "20", 1.0),
    ("The answer is 21.", "20", 0.0),
    ("Answer: 20, or rather: answer = 21", "20", 0.0),
    ("twenty", "20", 0.0),
    ("", "20", 0.0),
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
