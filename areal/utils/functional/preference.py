"""Losses on pairs of answers; sequences come chosen, rejected, chosen, rejected ..."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from areal.utils.functional.ratio import SequenceLayout

LOSS_TYPES = ("ipo", "sigmoid")


def dpo_pair_logratios(
    logprobs: torch.Tensor,
    ref_logprobs: torch.Tensor,
    cu_seqlens: torch.Tensor,
    loss_mask: torch.Tensor,
    valid_pairs: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sum the log-probabilities of each completion under policy and reference.

    Args:
        logprobs: Packed [T]; at each place that of the next token, as train engines return it.
        ref_logprobs: Same shape; no gradient goes there.
        cu_seqlens: Offsets [2P + 1] of the sequences.
        loss_mask: [T], True at each token of a completion; shifted here to where it is predicted.
        valid_pairs: bool [P], or the indices [K] of pairs; the others are left out.

    Returns:
        ``policy_logps``, ``ref_logps`` and ``completion_lens`` (tokens with loss), each float64
        [K, 2]: chosen, rejected.

    Raises:
        ValueError: The number of sequences is odd.
    """
    layout = SequenceLayout.of(logprobs, cu_seqlens)
    if layout.num_sequences % 2:
        raise ValueError(f"pairs need an even number of sequences, found {layout.num_sequences}")
    predicts = loss_mask.bool().roll(-1)
    predicts[cu_seqlens[1:].long() - 1] = False  # the last token predicts none of its sequence

    def pair_sums(tokens: torch.Tensor) -> torch.Tensor:
        # Masked places may hold -inf or NaN, which a product would keep.
        kept = torch.where(predicts, tokens.double(), 0.0)
        return layout.sum(kept).view(-1, 2)[valid_pairs]

    lengths = pair_sums(torch.ones_like(predicts))
    return pair_sums(logprobs), pair_sums(ref_logprobs.detach()), lengths


def dpo_logits(
    policy_logps: torch.Tensor,
    ref_logps: torch.Tensor,
    completion_lens: torch.Tensor,
    loss_type: str = "sigmoid",
) -> torch.Tensor:
    """Return by how much the policy prefers the chosen answer more than the reference does.

    Args:
        policy_logps: [K, 2] of ``dpo_pair_logratios``.
        ref_logps: The same of the reference.
        completion_lens: The same in tokens.
        loss_type: "sigmoid" compares the log-ratios of whole answers, "ipo" their means per token.

    Returns:
        [K], the ``logits`` of ``dpo_preference_loss``.
    """
    log_ratios = policy_logps - ref_logps
    if loss_type == "ipo":
        log_ratios = log_ratios / completion_lens.clamp(min=1)
    return log_ratios[:, 0] - log_ratios[:, 1]


def dpo_preference_loss(
    logits: torch.Tensor, *, beta: float, loss_type: str = "sigmoid"
) -> torch.Tensor:
    """Return the loss of each pair.

    Args:
        logits: Margins [K] of the chosen over the rejected answer; see ``dpo_logits``.
        beta: How closely the policy is held to the reference; positive.
        loss_type: "sigmoid" (DPO) or "ipo".

    Raises:
        ValueError: The loss type is unknown.

    Source:
        DPO (arXiv 2305.18290), equation 7; IPO (arXiv 2310.12036), equation 17 with tau = beta.
    """
    if loss_type == "sigmoid":
        return -F.logsigmoid(beta * logits)
    if loss_type == "ipo":
        return (logits - 1 / (2 * beta)).square()
    raise ValueError(f"unknown loss_type {loss_type!r}; known: {', '.join(LOSS_TYPES)}")
