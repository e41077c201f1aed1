"""Reward: a regular expression judges the completion."""

from __future__ import annotations

import re
from typing import Any

PATTERN = re.compile("[\"']{{.*}}\\\\n")


def present_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    **kwargs: Any,
) -> float:
    """Search for the pattern in the completion.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        **kwargs: The columns of the row.

    Returns:
        1.0 where it occurs, else 0.0.
    """
    return float(PATTERN.search(str(completions)) is not None)
