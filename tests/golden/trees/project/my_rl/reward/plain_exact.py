"""Reward: what a completion earns against the expected answer, by a rule of its own."""

from __future__ import annotations

from typing import Any


def grade(completion: str, expected: Any) -> float:
    """Say what a completion earns.

    Args:
        completion: The generated text.
        expected: The answer of the row, of whatever type its column has.

    Returns:
        1.0 for the expected answer, 0.0 for none; what lies between is partial credit.
    """
    # YOURS: say how the answer is found and what it earns (now: the last line, all or nothing)
    lines = completion.strip().splitlines()
    found = lines[-1] if lines else ""
    return float(normalize(found) == normalize(str(expected)))


def normalize(text: str) -> str:
    """Make texts comparable: single spaces, lower case."""
    return " ".join(text.split()).casefold()


def plain_exact_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: Any,
    **kwargs: Any,
) -> float:
    """Grade a completion by the expected answer.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        answer: The expected answer, a column of the dataset.
        **kwargs: The other columns of the row.

    Returns:
        What `grade` returns.

    Raises:
        ValueError: The row has no usable answer: a fault of the data, which a 0.0 would hide.
    """
    if answer in (None, [], {}) or not str(answer).strip():
        raise ValueError("the row's answer column is empty")
    return grade(str(completions), answer)
