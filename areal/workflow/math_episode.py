"""What agents that solve mathematical problems share: the score, and tools to calculate with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from areal.api.reward_api import AsyncRewardWrapper
from areal.utils.dynamic_import import import_from_string

# By name, as workflows and rewards are made apart.
_REWARD = "areal.reward.gsm8k.gsm8k_reward_fn"
DEFAULT_MAX_TURNS = 8
FEEDBACK = (
    "Your answer is wrong, or cannot be read. Think again, and put the final answer in \\boxed{}."
)


async def score(text: str | None, data: Mapping[str, Any]) -> float:
    r"""Return 1.0 where a text ends in the row's answer, else 0.0.

    Args:
        text: The last one of the model; None counts as empty.
        data: The row, with its ``answer``.
    """
    return float(await _reward_fn()(None, text or "", None, None, answer=data["answer"]))


@cache
def _reward_fn() -> AsyncRewardWrapper:
    # In the pool: math-verify may take long, and the event loop is everybody's.
    return AsyncRewardWrapper(import_from_string(_REWARD))


def add(a: float, b: float) -> float:
    """Return a + b."""
    return a + b


def subtract(a: float, b: float) -> float:
    """Return a - b."""
    return a - b


def multiply(a: float, b: float) -> float:
    """Return a times b."""
    return a * b


def divide(a: float, b: float) -> float | str:
    """Return a divided by b."""
    return a / b if b else "b is zero, and nothing is divided by it"


TOOLS = (add, subtract, multiply, divide)
