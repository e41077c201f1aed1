"""Filters of trajectories: what is worth training on."""

from __future__ import annotations

from typing import Any


def has_reward_variance(trajectory: dict[str, Any]) -> bool:
    """Return False for a group whose samples all got the same reward.

    Its advantages are zero, so it would fill the batch without teaching anything. A single sample
    is no group and passes.

    Args:
        trajectory: Has ``rewards`` of shape [B], or interactions by id.

    Source:
        DAPO (arXiv:2503.14476), section 3.2, dynamic sampling.
    """
    if "rewards" in trajectory:
        rewards = trajectory["rewards"].flatten().tolist()
    else:
        rewards = [one.reward for one in trajectory.values() if one.reward is not None]
    return len(rewards) < 2 or max(rewards) > min(rewards)
