"""Reward: 1.0 when the answer found in the completion equals the expected one."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

# A sign counts only where no digit comes before it: the last number of "5-3" is 3.
NUMBER = re.compile(r"(?:(?<!\d)-)?\d[\d,]*(?:\.\d+)?")


def extract_answer(completion: str) -> Decimal | None:
    """Find the last number of a text, thousands separators removed.

    Args:
        completion: The generated text.

    Returns:
        The number, so that 20 equals 20.0, or None where the text holds none.
    """
    numbers = NUMBER.findall(completion)
    return Decimal(numbers[-1].replace(",", "")) if numbers else None


def last_number_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: Any,
    **kwargs: Any,
) -> float:
    """Compare the answer in a completion with the expected one.

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
    expected = extract_answer(str(answer))
    if expected is None:
        raise ValueError(f"the row's answer {answer!r} holds no number")
    return float(extract_answer(str(completions)) == expected)
