"""Tests of ``my_rl.reward.plain_regex``."""

from __future__ import annotations

import pytest

from my_rl.reward.plain_regex import PATTERN
from my_rl.reward.plain_regex import plain_regex_reward_fn as reward_fn

# YOURS: add completions of your own model, with the answer and the reward they deserve
CASES = [
    ("The answer is 20.", "20", 1.0),
    ("The answer is 21.", "20", 0.0),
    ("Answer: 20, or rather: answer = 21", "20", 0.0),
    ("twenty", "20", 0.0),
    ("", "20", 0.0),
]

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


@pytest.mark.parametrize(("completion", "answer", "expected"), CASES)
def test_scores_the_cases(completion: str, answer: str, expected: float) -> None:
    assert score(completion, answer) == expected


@pytest.mark.parametrize("completion", PROBES, ids=range(len(PROBES)))
def test_scores_any_text_as_the_pattern_says(completion: str) -> None:
    found = [match.group(min(1, PATTERN.groups)) for match in PATTERN.finditer(completion)]
    last = (found[-1] or "").strip() if found else ""
    assert score(completion, "an answer that no probe holds") == 0.0
    if last:
        assert score(completion, last) == 1.0


def test_an_unusable_answer_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="answer"):
        score("20", "")
