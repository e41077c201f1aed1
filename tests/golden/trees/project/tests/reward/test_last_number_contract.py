"""Tests of ``my_rl.reward.last_number``: what holds for every reward, and cases of its own."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from areal.testing import HOSTILE_TEXTS

import my_rl.reward.last_number as module

# YOURS: rows and completions of your own with the reward they deserve (None: any finite number)
CASES: list[tuple[dict[str, Any], str, float | None]] = [
    ({"answer": "42"}, "The answer is 42.", None),
    ({"answer": "42"}, "I do not know.", None),
]

REWARDS = [
    module.last_number_reward_fn,
]


def score(reward_fn: Callable[..., Any], row: dict[str, Any], completion: str) -> Any:
    """Calls a reward as a workflow does; a coroutine is run to its end."""
    reward = reward_fn("a question", completion, [1, 2], [3], **row)
    return asyncio.run(reward) if inspect.iscoroutine(reward) else reward


@pytest.fixture(params=REWARDS, ids=lambda function: function.__name__)
def reward_fn(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param


@pytest.mark.parametrize(("row", "completion", "expected"), CASES)
def test_scores_the_cases(
    reward_fn: Callable[..., Any], row: dict[str, Any], completion: str, expected: float | None
) -> None:
    reward = score(reward_fn, row, completion)
    assert type(reward) is float
    assert math.isfinite(reward)
    assert expected is None or reward == expected


@pytest.mark.parametrize("completion", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_scores_any_text_with_a_finite_float(
    reward_fn: Callable[..., Any], completion: str
) -> None:
    reward = score(reward_fn, CASES[0][0], completion)
    assert type(reward) is float
    assert math.isfinite(reward)


def test_scores_the_same_twice_and_leaves_the_row_alone(reward_fn: Callable[..., Any]) -> None:
    for row, completion, _ in CASES:
        given = copy.deepcopy(row)
        assert score(reward_fn, given, completion) == score(reward_fn, row, completion)
        assert given == row


def test_other_columns_of_the_row_change_nothing(reward_fn: Callable[..., Any]) -> None:
    for row, completion, _ in CASES:
        wider = {**row, "a_column_of_nobody": ["x"]}
        assert score(reward_fn, wider, completion) == score(reward_fn, row, completion)


def test_a_worker_process_finds_it_by_name(reward_fn: Callable[..., Any]) -> None:
    assert pickle.loads(pickle.dumps(reward_fn)) is reward_fn
