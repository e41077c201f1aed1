"""Shaping of rewards by the length of answers."""

from __future__ import annotations

from typing import Any

import torch


def overlong_penalty(
    response_lengths: torch.Tensor,
    overlong_tokens: int,
    overlong_penalty_factor: float,
    max_response_length: int,
) -> torch.Tensor:
    """Return the (non-positive) reward for the length of each answer.

    It is 0 up to ``max_response_length - overlong_tokens``, falls along a line over the last
    ``overlong_tokens`` and is ``-overlong_penalty_factor`` from there on.

    Args:
        response_lengths: Sampled tokens of each answer, [B].
        overlong_tokens: Width of the slope in tokens, above 0.
        overlong_penalty_factor: Largest penalty.
        max_response_length: Length in tokens at which it is reached.

    Source:
        DAPO (arXiv 2503.14476), equation 13, which has factor 1.
    """
    if not 0 < overlong_tokens <= max_response_length:
        raise ValueError(
            f"overlong_tokens must lie in (0, max_response_length={max_response_length}], "
            f"found {overlong_tokens}"
        )
    excess = response_lengths.float() - (max_response_length - overlong_tokens)
    return -(excess / overlong_tokens).clamp(0.0, 1.0) * overlong_penalty_factor


def reward_overlong_penalty(
    data: dict[str, Any],
    overlong_tokens: int,
    overlong_penalty_factor: float,
    max_response_length: int,
) -> dict[str, Any]:
    """Return a copy of the batch whose ``rewards`` [B] have the penalty for length in them.

    The length of an answer is the number of its tokens in ``loss_mask`` [B, L].
    """
    lengths = data["loss_mask"].bool().sum(1)
    penalty = overlong_penalty(
        lengths, overlong_tokens, overlong_penalty_factor, max_response_length
    )
    return {**data, "rewards": data["rewards"] + penalty.to(data["rewards"].dtype)}
