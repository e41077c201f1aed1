"""Gates: how far a token's loss may follow its importance ratio.

Each gate takes ratios, log-probabilities and advantages of equal shape and returns the loss per
token (to be minimised) and, for the report, which tokens it held back. ``A`` is the advantage,
``r`` the ratio of the trained to the proximal policy, ``sg`` stops the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

GATES = ("cispo", "clip", "sapo")


@dataclass(frozen=True)
class GatedLoss:
    """What a gate returns.

    Attributes:
        loss: Per token, differentiable.
        is_clipped: Bool per token: the ratio lay outside the trusted range where that matters.
        is_dual_clipped: Bool per token: the dual clip bounded the loss.
        stats: What else this gate reports of each token, by name.
    """

    loss: torch.Tensor
    is_clipped: torch.Tensor
    is_dual_clipped: torch.Tensor
    stats: dict[str, torch.Tensor] = field(default_factory=dict)


def clip_gate(
    ratio: torch.Tensor,
    advantages: torch.Tensor,
    eps_clip: float,
    eps_clip_higher: float | None = None,
    c_clip: float | None = None,
) -> GatedLoss:
    """Take the more pessimistic of ``r A`` and ``clip(r, 1 - eps, 1 + eps_higher) A``.

    Args:
        ratio: ``r``.
        advantages: ``A``.
        eps_clip: Lower bound is ``1 - eps_clip``; 1 or more is none.
        eps_clip_higher: Upper bound is ``1 + eps_clip_higher``; infinity is none, and None makes
            the bounds symmetric.
        c_clip: Above 1: where A < 0, the loss is at most ``-c_clip * A``.

    Source:
        PPO (arXiv 1707.06347), equation 7; DAPO's higher upper bound (arXiv 2503.14476), section
        3.1; the dual clip of Ye et al. (arXiv 1912.09729).
    """
    upper = eps_clip if eps_clip_higher is None else eps_clip_higher
    free = -advantages * ratio
    held = -advantages * ratio.clamp(1.0 - eps_clip, 1.0 + upper)
    loss = torch.maximum(free, held)
    is_clipped = (free < held).detach()
    is_dual_clipped = torch.zeros_like(is_clipped)
    if c_clip is not None:
        if c_clip <= 1.0:
            raise ValueError(f"c_clip must be greater than 1, found {c_clip}")
        ceiling = -advantages * c_clip
        is_dual_clipped = ((advantages < 0) & (loss > ceiling)).detach()
        loss = torch.where(is_dual_clipped, ceiling, loss)
    return GatedLoss(loss, is_clipped, is_dual_clipped)


def cispo_gate(
    ratio: torch.Tensor,
    logprobs: torch.Tensor,
    advantages: torch.Tensor,
    eps_clip: float,
    eps_clip_higher: float | None = None,
) -> GatedLoss:
    """Take ``sg(clip(r, 1 - eps, 1 + eps_higher)) A log pi``: every token keeps a gradient.

    ``eps_clip`` of 1 or more is no lower bound, which is how the paper runs it.

    Raises:
        ValueError: ``eps_clip_higher`` is not positive: no ratio above 1 would weigh more than 1.

    Source:
        MiniMax-M1 (arXiv 2506.13585), equations 4 and 5.
    """
    if eps_clip_higher is not None and not eps_clip_higher > 0:
        raise ValueError(f"eps_clip_higher must be greater than 0, found {eps_clip_higher}")
    upper = eps_clip if eps_clip_higher is None else eps_clip_higher
    ratio = ratio.detach()
    weight = ratio.clamp(1.0 - eps_clip, 1.0 + upper)
    is_clipped = weight != ratio
    return GatedLoss(-advantages * weight * logprobs, is_clipped, torch.zeros_like(is_clipped))


def sapo_gate(
    ratio: torch.Tensor, advantages: torch.Tensor, tau_pos: float, tau_neg: float
) -> GatedLoss:
    """Take ``4 / tau * sigmoid(tau (r - 1)) A``: a soft gate whose slope at r = 1 is 1.

    ``tau`` is ``tau_pos`` where A > 0 and ``tau_neg`` elsewhere.

    Source:
        SAPO (arXiv 2511.20347), the gate f of its objective.
    """
    pos, neg = (torch.sigmoid(tau * (ratio - 1.0)) * (4.0 / tau) for tau in (tau_pos, tau_neg))
    gate = torch.where(advantages > 0, pos, neg)
    none = torch.zeros_like(ratio, dtype=torch.bool)
    stats = {
        "sapo_soft_gate": gate.detach(),
        "sapo_scaled_gate_pos": pos.detach(),
        "sapo_scaled_gate_neg": neg.detach(),
    }
    return GatedLoss(-advantages * gate, none, none, stats)


@torch.no_grad()
def m2_mask(
    log_ratio: torch.Tensor,
    advantages: torch.Tensor,
    loss_mask: torch.Tensor,
    threshold: float,
) -> torch.Tensor:
    """Leave out the tokens that carry the second moment of the log-ratio above a threshold.

    Only tokens that a clip could act on are judged: those with A > 0 and r > 1, or A < 0 and r < 1.
    Of these the largest ``(log r)^2`` are left out until the mean over the ones left is at most the
    threshold. It looks at a whole batch at once, so it runs before micro-batches are made.

    Args:
        log_ratio: Log of policy over behaviour policy, any shape.
        advantages: Same shape.
        loss_mask: True = keep, same shape.
        threshold: Largest accepted second moment; the paper's is 0.04.

    Returns:
        Bool of the same shape: ``loss_mask`` without what was left out.

    Source:
        M2PO (arXiv 2510.01161), algorithm 1.
    """
    kept = loss_mask.bool().clone()
    places = (kept & (advantages * log_ratio > 0)).flatten().nonzero().squeeze(1)
    moments, order = log_ratio.flatten()[places].double().square().sort(stable=True)
    counts = torch.arange(1, len(moments) + 1, device=moments.device)
    # Means of ascending values ascend, so the accepted ones are a prefix.
    num_accepted = int((moments.cumsum(0) <= threshold * counts).sum())
    kept.view(-1)[places[order[num_accepted:]]] = False
    return kept
