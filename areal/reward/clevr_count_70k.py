"""CLEVR counting: how many objects a picture shows, given in square brackets."""

from __future__ import annotations

import re
from typing import Any

from areal.api.errors import RewardError

_BRACKETED_NUMBER = re.compile(r"\[\s*(-?\d+(?:\.\d+)?)\s*\]")
_GOLD = re.compile(r"\[?\s*(-?\d+(?:\.\d+)?)\s*\]?")


def clevr_count_70k_reward_fn(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, answer: Any, **kwargs: Any
) -> float:
    """Score 1.0 for a completion whose last ``[number]`` is the gold count, digit for digit.

    Args:
        prompt: Not used.
        completions: The completion; a number outside brackets does not count.
        prompt_ids: Not used.
        completion_ids: Not used.
        answer: The gold count, with or without brackets.
        **kwargs: Other columns of the row; not used.

    Returns:
        1.0 or 0.0.

    Raises:
        RewardError: The gold answer is no number.

    Source: https://huggingface.co/datasets/BUAADreamer/clevr_count_70k.
    """
    gold = _GOLD.fullmatch(str(answer).strip())
    if gold is None:
        raise RewardError(f"the gold answer {answer!r} is not a number")
    said = _BRACKETED_NUMBER.findall(completions)
    return float(bool(said) and said[-1] == gold[1])
