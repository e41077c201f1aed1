"""Reward: a language model judges the completion."""

from __future__ import annotations

from typing import Any

from areal.reward.judge_endpoint import SCORE, Endpoint

JUDGE = Endpoint(
    base_url="http://localhost:8000/v1",
    model="",
    cache_dir="",
)

# YOURS: say what a good answer is, and what makes one worthless
RUBRIC = """\
A good answer is right, complete and no longer than it has to be. Where a reference is given, an
answer that contradicts it is worthless, however well it is written."""


def plain_judge_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: Any = None,
    **kwargs: Any,
) -> float:
    """Ask the judge about a completion.

    Args:
        prompt: The question, as the judge reads it.
        completions: The answer to it.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        answer: A reference, where the dataset has one in this column.
        **kwargs: The other columns of the row.

    Returns:
        The judge's score, from 0.0 to 1.0; 0.0 for an empty completion, which nobody reads.

    Raises:
        JudgeError: The judge gives no verdict; that is no fault of the completion.
    """
    reference = "" if answer is None else str(answer)
    return JUDGE.rate(RUBRIC, SCORE, str(prompt), str(completions), reference)
