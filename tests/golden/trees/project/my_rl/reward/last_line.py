"""Reward: 1.0 when the answer found in the completion equals the expected one."""

from __future__ import annotations

from typing import Any


def extract_answer(completion: str) -> str | None:
    """Find the answer in a completion.

    Args:
        completion: The generated text.

    Returns:
        The answer as text, or None where the completion holds none.
    """
    lines = completion.strip().splitlines()
    return lines[-1] if lines else None


def normalize(text: str) -> str:
    """Make texts comparable: single spaces."""
    return " ".join(text.split())


def last_line_reward_fn(
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
    expected = normalize(str(answer))
    if not expected:
        raise ValueError("the row's answer column is empty")
    found = extract_answer(str(completions))
    return float(found is not None and normalize(found) == expected)
