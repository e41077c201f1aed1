"""Arithmetic: the completion is a whole number and nothing else."""

from __future__ import annotations

import re
from typing import Any

from areal.api.errors import RewardError
from areal.api.reward_api import inline_reward

_INTEGER = re.compile(r"-?[0-9]{1,400}")


@inline_reward
def arithmetic_reward_fn(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, answer: Any, **kwargs: Any
) -> float:
    """Score 1.0 for a completion that is the gold integer, with at most spaces around it.

    A microsecond's work, so it runs in the event loop and not in the reward pool.

    Args:
        prompt: Not used.
        completions: The completion.
        prompt_ids: Not used.
        completion_ids: Not used.
        answer: The gold integer, as text or number.
        **kwargs: Other columns of the row; not used.

    Returns:
        1.0 or 0.0; anything but one integer scores 0.0.

    Raises:
        RewardError: The gold answer is no integer.
    """
    gold = str(answer).strip()
    if not _INTEGER.fullmatch(gold):
        raise RewardError(f"the gold answer {answer!r} is not an integer")
    said = completions.strip()
    return float(_INTEGER.fullmatch(said) is not None and int(said) == int(gold))
