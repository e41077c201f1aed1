"""Geometry3K: a length, an angle or an expression, given in square brackets."""

from __future__ import annotations

import re
from typing import Any

from areal.reward.extraction import final_answer, last_bracketed
from areal.reward.math_verify import get_math_verify_worker

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")


def geometry3k_reward_fn(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, answer: Any, **kwargs: Any
) -> float:
    r"""Score 1.0 for a completion whose bracketed answer equals the gold answer.

    Args:
        prompt: Not used.
        completions: The completion. The last ``[...]`` is the answer, or the last ``\boxed{}`` if
            there are no brackets, or else the last number.
        prompt_ids: Not used.
        completion_ids: Not used.
        answer: The gold answer, such as ``2 \sqrt { 221 }``.
        **kwargs: Other columns of the row; not used.

    Returns:
        1.0 or 0.0.

    Raises:
        RewardError: The gold answer is empty or cannot be read.
        RewardTimeoutError: The comparison took too long.

    Source: https://huggingface.co/datasets/hiyouga/geometry3k.
    """
    bracketed = last_bracketed(completions)
    said = bracketed[1] if bracketed is not None else final_answer(completions)
    if said is None:
        numbers = _NUMBER.findall(completions)
        said = numbers[-1] if numbers else ""
    return get_math_verify_worker(raise_on_error=True).verify(f"\\boxed{{{said}}}", str(answer))
