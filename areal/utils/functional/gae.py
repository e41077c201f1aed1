"""Advantages from rewards and values over time, per token or per turn.

Shapes: B sequences, L columns, U turns. Column t is the action of sampling token t + 1, and
its value is that of the state before it. Columns outside the mask (prompts, tool output, padding)
are no steps: the recursion runs past them without discounting.
"""

from __future__ import annotations

import torch


@torch.no_grad()
def generalized_advantages(
    rewards: torch.Tensor,
    values: torch.Tensor | None,
    mask: torch.Tensor,
    discount: float = 1.0,
    gae_lambda: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    """Return the generalised advantage estimate of every step, 0 outside the mask.

    Args:
        rewards: [B, L]; what is outside the mask is ignored.
        values: [B, L], or None for no critic, which is 0 everywhere.
        mask: Steps, bool [B, L]. The episode ends after the last one.
        discount: gamma.
        gae_lambda: lambda, one or one per sequence [B].

    Source:
        Schulman et al. (arXiv 1506.02438), equations 11 to 16.
    """
    rewards = torch.where(mask, rewards, 0.0)
    is_undecayed = discount == 1.0 and isinstance(gae_lambda, float | int) and gae_lambda == 1.0
    if is_undecayed:
        to_go = rewards.flip(1).cumsum(1).flip(1)
        baseline = 0.0 if values is None else values
        return torch.where(mask, to_go - baseline, 0.0)
    return _scan(rewards, values, mask, discount, gae_lambda)


def _scan(
    rewards: torch.Tensor,
    values: torch.Tensor | None,
    mask: torch.Tensor,
    discount: float,
    gae_lambda: float | torch.Tensor,
) -> torch.Tensor:
    """Walk the columns from last to first, carrying the next step's advantage and value."""
    values = torch.zeros_like(rewards) if values is None else values
    advantages = torch.zeros_like(rewards)
    next_advantage, next_value = torch.zeros_like(rewards[:, 0]), torch.zeros_like(rewards[:, 0])
    is_any_step = mask.any(0).tolist()
    for t in reversed(range(rewards.shape[1])):
        if not is_any_step[t]:
            continue
        delta = rewards[:, t] + discount * next_value - values[:, t]
        advantage = delta + discount * gae_lambda * next_advantage
        is_step = mask[:, t]
        next_advantage = torch.where(is_step, advantage, next_advantage)
        next_value = torch.where(is_step, values[:, t], next_value)
        advantages[:, t] = torch.where(is_step, advantage, 0.0)
    return advantages


@torch.no_grad()
def turn_advantages(
    rewards: torch.Tensor,
    values: torch.Tensor | None,
    mask: torch.Tensor,
    turn_ids: torch.Tensor,
    discount: float = 1.0,
    gae_lambda: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    """Return advantages [B, L] with whole turns as steps: all tokens of a turn share theirs.

    The reward of a turn is the sum over its tokens, its value that of its first token.

    Args:
        rewards: [B, L].
        values: [B, L] or None.
        mask: Sampled tokens, bool [B, L].
        turn_ids: Turn of each sampled token, ascending from 0; ignored outside the mask.
        discount: gamma, per turn.
        gae_lambda: lambda, one or one per sequence [B].

    Raises:
        ValueError: A sampled token has a negative turn.
    """
    turns = torch.where(mask, turn_ids.long(), 0)
    if bool((turns < 0).any()):
        raise ValueError("turn_ids must not be negative where loss_mask is set")
    num_turns = int(turns.max()) + 1 if turns.numel() else 1
    turn_rewards_BU = _sum_by_turn(torch.where(mask, rewards, 0.0), turns, num_turns)
    is_turn_BU = _sum_by_turn(mask.to(rewards.dtype), turns, num_turns) > 0
    turn_values_BU = None
    if values is not None:
        is_first = mask & (_count_within_turn(mask, turns, num_turns) == 1)
        turn_values_BU = _sum_by_turn(torch.where(is_first, values, 0.0), turns, num_turns)
    advantages_BU = generalized_advantages(
        turn_rewards_BU, turn_values_BU, is_turn_BU, discount, gae_lambda
    )
    return torch.where(mask, advantages_BU.gather(1, turns), 0.0)


def _sum_by_turn(x: torch.Tensor, turns: torch.Tensor, num_turns: int) -> torch.Tensor:
    return x.new_zeros(x.shape[0], num_turns).scatter_add(1, turns, x)


def _count_within_turn(mask: torch.Tensor, turns: torch.Tensor, num_turns: int) -> torch.Tensor:
    """Number the sampled tokens of each turn from 1."""
    one_hot_BLU = torch.nn.functional.one_hot(turns, num_turns) * mask[..., None]
    return one_hot_BLU.cumsum(1).gather(2, turns[..., None]).squeeze(2)
