"""What agents that solve mathematical problems share: the score, and tools to calculate with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from areal.api.reward_api import AsyncRewardWrapper
from areal.reward.gsm8k import gsm8k_reward_fn

# What a row's answer is compared with, out of reach of the event loop: math-verify takes its time.
_score = AsyncRewardWrapper(gsm8k_reward_fn)

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
    reward: float = await _score(None, text or "", None, None, answer=data["answer"])
    return float(reward)


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
