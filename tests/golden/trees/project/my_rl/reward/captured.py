"""Reward: a regular expression judges the completion."""

from __future__ import annotations

import re
from typing import Any

PATTERN = re.compile("<answer>(.*?)</answer>")


def extract_answer(completion: str) -> str | None:
    """Find the answer in a completion.

    Args:
        completion: The generated text.

    Returns:
        What the first group of the last match holds (the whole match for a pattern without
        groups), or None without a match.
    """
    matches = list(PATTERN.finditer(completion))
    return matches[-1].group(min(1, PATTERN.groups)) if matches else None


def captured_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: Any,
    **kwargs: Any,
) -> float:
    """Compare what the pattern captures with the expected answer.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        answer: The expected answer, a column of the dataset.
        **kwargs: The other columns of the row.

    Returns:
        1.0 for the expected answer; 0.0 for another one or none.

    Raises:
        ValueError: The row has no usable answer: a fault of the data, which a 0.0 would hide.
    """
    expected = str(answer).strip()
    if not expected:
        raise ValueError("the row's answer column is empty")
    found = extract_answer(str(completions))
    return float(found is not None and found.strip() == expected)
