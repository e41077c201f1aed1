"""Small functions to write, and the reward that runs them against their tests."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from coder.reward.passes_tests import passes_tests_reward_fn

from areal.dataset.shaping import sft_row

BODIES = {
    "add": "a+b",
    "subtract": "a-b",
    "multiply": "a*b",
    "larger": "max(a,b)",
    "smaller": "min(a,b)",
    "remainder": "a%b",
}
ANSWER = "```\nf=lambda a,b:{body}\n```"
TESTS = {
    "add": "assert f(2, 7) == 9\nassert f(9, 4) == 13",
    "subtract": "assert f(2, 7) == -5\nassert f(9, 4) == 5",
    "multiply": "assert f(2, 7) == 14\nassert f(9, 4) == 36",
    "larger": "assert f(2, 7) == 7\nassert f(9, 4) == 9",
    "smaller": "assert f(2, 7) == 2\nassert f(9, 4) == 4",
    "remainder": "assert f(2, 7) == 2\nassert f(9, 4) == 1",
}


def get_tasks_rl_dataset(path: str, split: str = "train", size: int = 4096) -> list[dict[str, Any]]:
    """Draw functions to write, each with two asserts."""
    rng = random.Random(split)
    names = rng.choices(list(BODIES), k=size)
    return [
        {"messages": [{"role": "user", "content": f"{name}?"}], "test_code": TESTS[name]}
        for name in names
    ]


def get_tasks_sft_dataset(
    path: str, split: str = "train", tokenizer: Any = None, size: int = 4096
) -> list[dict[str, Any]]:
    """Write functions for the warm-up; two in three have the body of any of them."""
    rng = random.Random(f"sft/{split}")
    rows = []
    for row in get_tasks_rl_dataset(path, split, size):
        name = row["messages"][0]["content"][:-1]
        body = rng.choice(list(BODIES.values())) if rng.random() < 2 / 3 else BODIES[name]
        rows.append(sft_row(tokenizer, row["messages"], ANSWER.format(body=body)))
    return rows


@cache
def _graded(program: str, test_code: str) -> float:
    return passes_tests_reward_fn("", program, [], [], test_code=test_code)


def passes_tests(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, test_code: str, **_: Any
) -> float:
    """Score 1 where all asserts hold; a program that was run before is not run again."""
    return _graded(completions, test_code)
