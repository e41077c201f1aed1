"""Reward functions that benchmarks time; worker processes import them from here."""

from __future__ import annotations

import time
from typing import Any

from areal.api.reward_api import inline_reward


def trivial(*args: Any, **kwargs: Any) -> float:
    """Cost nothing, so that only the way there and back is timed."""
    return 1.0


def five_milliseconds(*args: Any, **kwargs: Any) -> float:
    """Take as long as a grader does that is no trifle."""
    time.sleep(0.005)
    return 1.0


def pooled_match(
    prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **row: Any
) -> float:
    """Compare the completion with the answer, in a worker process."""
    return float(completions.strip() == row["answer"])


@inline_reward
def inline_match(
    prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **row: Any
) -> float:
    """Compare the completion with the answer, in the event loop."""
    return float(completions.strip() == row["answer"])
