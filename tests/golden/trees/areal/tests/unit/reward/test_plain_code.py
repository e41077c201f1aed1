"""Tests of ``areal.reward.plain_code``."""

from __future__ import annotations

import pytest

from areal.reward.plain_code import LIMITS
from areal.reward.plain_code import plain_code_reward_fn as reward_fn
from areal.sandbox import find_backend

TESTS = [{"input": f"{n}\n", "output": f"{2 * n}\n"} for n in (1, 2, 40, -7)]
RIGHT = "print(2 * int(input()))"
HALF_RIGHT = "print(2 ** int(input()))"
pytestmark = pytest.mark.skipif(not find_backend()[0], reason=find_backend()[1])


def block(code: str) -> str:
    return f"Let me think.\n```python\n{code}\n```\nThat is it."


# Add completions for rows of your own, with the reward that each deserves
CASES = [
    (block(RIGHT), 1.0),
    (block(HALF_RIGHT) + block(RIGHT), 1.0),
    (block(RIGHT) + block(HALF_RIGHT), 0.0),
    (block("import sys\nsys.exit(0)\n" + RIGHT), 0.0),
    (block("class"), 0.0),
    (block("hoard = 'x' * 10 ** 13\n" + RIGHT), 0.0),
    (RIGHT, 0.0),
    ("", 0.0),
    ("```python\n", 0.0),
]


def score(completion: str, tests: object = TESTS) -> float:
    columns = {"test_cases": tests, "level": "extra column"}
    return reward_fn("a question", completion, [1, 2], [3], **columns)


@pytest.mark.parametrize(("completion", "expected"), CASES, ids=range(len(CASES)))
def test_scores_the_cases(completion: str, expected: float) -> None:
    reward = score(completion)
    assert type(reward) is float
    assert reward == expected


def test_only_processor_time_is_the_programs_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LIMITS._replace(cpu_s=0.3, wall_s=5.0)
    monkeypatch.setitem(reward_fn.__globals__, "LIMITS", limits)
    assert score(block("while True:\n    pass")) == 0.0
    monkeypatch.setitem(reward_fn.__globals__, "LIMITS", limits._replace(wall_s=0.3))
    with pytest.raises(RuntimeError, match="try again"):
        score(block("import time\ntime.sleep(60)"))


def test_an_unusable_row_is_an_error_and_no_zero() -> None:
    for tests in ([], [{"input": "1"}], [{"input": "1", "output": None}], "[", 5):
        with pytest.raises(ValueError, match="test_c"):
            score(block(RIGHT), tests)
