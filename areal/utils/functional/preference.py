"""Losses on pairs of answers; sequences come chosen, rejected, chosen, rejected ..."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from areal.utils.functional.ratio import SequenceLayout, masked_log_ratio

LOSS_TYPES = ("ipo", "sigmoid")


def dpo_pair_logratios(
    logprobs: torch.Tensor,
    ref_logprobs: torch.Tensor,
    loss_mask: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum the log-ratio of policy to reference over each answer.

    Args:
        logprobs: Per token, packed [T] with ``cu_seqlens`` or padded [2P, L].
        ref_logprobs: Same shape; no gradient goes there.
        loss_mask: True = keep.
        cu_seqlens: Offsets [2P + 1] of packed sequences.

    Returns:
        Log-ratios of the P chosen and the P rejected answers.

    Raises:
        ValueError: The number of sequences is odd.
    """
    layout = SequenceLayout.of(logprobs, cu_seqlens)
    if layout.num_sequences % 2:
        raise ValueError(f"pairs need an even number of sequences, found {layout.num_sequences}")
    log_ratio = masked_log_ratio(logprobs, ref_logprobs.detach(), loss_mask.bool())
    pairs = layout.sum(log_ratio).view(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def dpo_preference_loss(
    chosen_logratios: torch.Tensor,
    rejected_logratios: torch.Tensor,
    beta: float = 0.1,
    loss_type: str = "sigmoid",
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Compute the preference loss, averaged over pairs.

    Args:
        chosen_logratios: [P], with gradient.
        rejected_logratios: [P], with gradient.
        beta: How closely the policy is held to the reference; positive.
        loss_type: "sigmoid" (DPO) or "ipo".

    Returns:
        The 0-dim loss and detached per-pair ``loss``, ``chosen_rewards``, ``rejected_rewards``,
        ``reward_margins`` and ``reward_accuracy`` (1 where the chosen answer is the better one).

    Source:
        DPO (arXiv 2305.18290), equation 7; IPO (arXiv 2310.12036), equation 17 with tau = beta.
    """
    margins = chosen_logratios - rejected_logratios
    if loss_type == "sigmoid":
        losses = -F.logsigmoid(beta * margins)
    elif loss_type == "ipo":
        losses = (margins - 1 / (2 * beta)).square()
    else:
        raise ValueError(f"unknown loss_type {loss_type!r}; known: {', '.join(LOSS_TYPES)}")
    stats = {
        "loss": losses.detach(),
        "chosen_rewards": beta * chosen_logratios.detach(),
        "rejected_rewards": beta * rejected_logratios.detach(),
        "reward_margins": beta * margins.detach(),
        "reward_accuracy": (margins.detach() > 0).to(losses.dtype),
    }
    return losses.mean(), stats
