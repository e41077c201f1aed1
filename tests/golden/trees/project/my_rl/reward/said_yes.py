"""Reward: a language model judges the completion."""

from __future__ import annotations

from typing import Any

from areal.reward.judge_endpoint import YES_NO, Endpoint

JUDGE = Endpoint(
    base_url='it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
    model='it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
    cache_dir='it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
)

RUBRIC = 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""'


def said_yes_reward_fn(
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
        1.0 for a yes, 0.0 for a no and for an empty completion, which nobody reads.

    Raises:
        JudgeError: The judge gives no verdict; that is no fault of the completion.
    """
    reference = "" if answer is None else str(answer)
    return JUDGE.rate(RUBRIC, YES_NO, str(prompt), str(completions), reference)
