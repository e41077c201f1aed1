"""The policy loss: one computation with options, of which the named algorithms are settings.

Ratio (token or sequence) -> gate -> behaviour correction and filter -> KL -> aggregation.
Baselines and normalisation of advantages come before it and are not its business.

Per-token tensors are packed [T] with ``cu_seqlens`` or padded [N, L] without, all of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from areal.utils.functional.aggregation import AGGREGATIONS, aggregate_loss
from areal.utils.functional.gates import (
    GATES,
    GatedLoss,
    cispo_gate,
    clip_gate,
    sapo_gate,
)
from areal.utils.functional.kl import KLEstimator
from areal.utils.functional.ratio import (
    LEVELS,
    SequenceLayout,
    importance_ratio,
    masked_log_ratio,
)
from areal.utils.functional.rejection import apply_rejection_sampling

if TYPE_CHECKING:
    from areal.api.cli_args import RejectionSamplingConfig

Stats = dict[str, torch.Tensor]


@dataclass(frozen=True)
class PolicyLossOptions:
    """The settings of the policy loss.

    Attributes:
        gate: "clip", "cispo" or "sapo".
        eps_clip: The ratio is trusted down to ``1 - eps_clip``; 1 or more is no bound.
        eps_clip_higher: And up to ``1 + eps_clip_higher``; infinity is no bound, None symmetric.
        c_clip: The dual clip, above 1; None for none.
        sapo_tau_pos: Temperature of the soft gate where the advantage is positive.
        sapo_tau_neg: And elsewhere.
        importance_sampling_level: "token" or "sequence" ratios.
        rejection_sampling: Filter on the distance of proximal and behaviour policy.
        aggregation: How tokens make a loss (see ``aggregation.AGGREGATIONS``).
        norm_length: The constant that "sequence_mean_token_sum_norm" divides by.
        kl_coef: Weight of the KL term within the loss; 0 for none.
        kl_estimator: "k1", "k2" or "k3" for that term.
    """

    gate: str = "clip"
    eps_clip: float = 0.2
    eps_clip_higher: float | None = None
    c_clip: float | None = None
    sapo_tau_pos: float = 1.0
    sapo_tau_neg: float = 1.05
    importance_sampling_level: str = "token"
    rejection_sampling: RejectionSamplingConfig | None = None
    aggregation: str = "token_mean"
    norm_length: int | None = None
    kl_coef: float = 0.0
    kl_estimator: str = "k3"

    def __post_init__(self) -> None:
        choices = {
            "gate": GATES,
            "importance_sampling_level": LEVELS,
            "aggregation": AGGREGATIONS,
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )

    @property
    def needs_sequences(self) -> bool:
        """Whether the loss itself depends on where sequences begin and end."""
        return self.importance_sampling_level == "sequence" or self.aggregation != "token_mean"


def policy_loss(
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    loss_mask: torch.Tensor,
    options: PolicyLossOptions,
    *,
    cu_seqlens: torch.Tensor | None = None,
    keep_mask: torch.Tensor | None = None,
    ref_logprobs: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Compute the loss whose gradient improves the policy, and what to report about it.

    Filters (rejection, ``keep_mask``) take tokens out of the sum but not out of the number that it
    is divided by: the scale of an update does not depend on how much was filtered, and the parts of
    a batch still add up (see ``aggregation``).

    Args:
        logprobs: Of the policy in training, with gradient.
        proximal_logprobs: Of the policy that the trust region is around.
        old_logprobs: Of the policy that sampled; the proximal tensor itself switches the behaviour
            correction off.
        advantages: Per token.
        loss_mask: True = keep.
        options: What to compute.
        cu_seqlens: Offsets int32 [N + 1] of packed sequences.
        keep_mask: Tokens that an earlier filter kept, such as ``m2_mask``.
        ref_logprobs: Of the reference policy; needed where ``options.kl_coef`` is not 0.

    Returns:
        The 0-dim loss and detached per-token tensors: ``loss``, ``importance_weight``,
        ``approx_kl``, ``clip_mask``, ``dual_clip_mask`` always; ``behave_approx_kl`` with a
        behaviour correction, and if that filters ``behave_imp_weight`` and, 0-dim,
        ``filtered_fraction``; ``sapo_soft_gate``, ``sapo_scaled_gate_pos`` and
        ``sapo_scaled_gate_neg`` (of all tokens, were their advantages so) with that gate;
        ``ref_kl`` with a KL term. Outside ``loss_mask`` they are 0 or False.

    Raises:
        ValueError: An option needs what was not given.

    Source:
        The correction by ``proximal / old`` and its place outside the clip: decoupled PPO (arXiv
        2110.00641, equation 6; arXiv 2505.24298, equation 5).
    """
    mask = loss_mask.bool()
    layout = SequenceLayout.of(logprobs, cu_seqlens) if options.needs_sequences else None
    ratio = importance_ratio(
        logprobs, proximal_logprobs.detach(), mask, options.importance_sampling_level, layout
    )
    gated = _apply_gate(options, ratio, torch.where(mask, logprobs, 0.0), advantages)
    losses = torch.where(mask, gated.loss, 0.0)
    stats = _gate_stats(ratio, gated, logprobs, proximal_logprobs, mask)
    if old_logprobs is not proximal_logprobs or options.rejection_sampling is not None:
        found = apply_rejection_sampling(
            proximal_logprobs, old_logprobs, mask, options.rejection_sampling, cu_seqlens
        )
        losses = losses * found.behave_imp_weight
        stats["behave_approx_kl"] = _masked_kl(old_logprobs, proximal_logprobs, mask)
        if options.rejection_sampling is not None:
            stats["behave_imp_weight"] = found.behave_imp_weight
            stats["filtered_fraction"] = found.filtered_fraction
    if keep_mask is not None:
        losses = torch.where(keep_mask.bool(), losses, 0.0)
    if options.kl_coef:
        if ref_logprobs is None:
            raise ValueError("kl_coef is set, but there are no ref_logprobs")
        ref_kl = torch.where(mask, KLEstimator(options.kl_estimator)(logprobs, ref_logprobs), 0.0)
        losses = losses + options.kl_coef * ref_kl
        stats["ref_kl"] = ref_kl.detach()
    stats["loss"] = losses.detach()
    loss = aggregate_loss(losses, mask, options.aggregation, layout, options.norm_length)
    return loss, stats


def ppo_actor_loss_fn(
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    eps_clip: float,
    loss_mask: torch.Tensor,
    eps_clip_higher: float | None = None,
    c_clip: float | None = None,
    rejection_sampling: RejectionSamplingConfig | None = None,
    importance_sampling_level: str = "token",
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Compute the clipped policy loss, averaged over tokens; see ``policy_loss``."""
    options = PolicyLossOptions(
        gate="clip",
        eps_clip=eps_clip,
        eps_clip_higher=eps_clip_higher,
        c_clip=c_clip,
        rejection_sampling=rejection_sampling,
        importance_sampling_level=importance_sampling_level,
    )
    return policy_loss(
        logprobs,
        proximal_logprobs,
        old_logprobs,
        advantages,
        loss_mask,
        options,
        cu_seqlens=cu_seqlens,
    )


def sapo_loss_fn(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    tau_pos: float,
    tau_neg: float,
    loss_mask: torch.Tensor,
    importance_sampling_level: str = "token",
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Compute the softly gated policy loss, averaged over tokens; see ``policy_loss``."""
    options = PolicyLossOptions(
        gate="sapo",
        sapo_tau_pos=tau_pos,
        sapo_tau_neg=tau_neg,
        importance_sampling_level=importance_sampling_level,
    )
    return policy_loss(
        logprobs, old_logprobs, old_logprobs, advantages, loss_mask, options, cu_seqlens=cu_seqlens
    )


def cispo_loss_fn(
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    eps_clip: float,
    loss_mask: torch.Tensor,
    eps_clip_higher: float | None = None,
    old_logprobs: torch.Tensor | None = None,
    rejection_sampling: RejectionSamplingConfig | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Compute the policy loss with clipped weights, averaged over tokens; see ``policy_loss``.

    Without ``old_logprobs`` the proximal policy is the one that sampled.
    """
    options = PolicyLossOptions(
        gate="cispo",
        eps_clip=eps_clip,
        eps_clip_higher=eps_clip_higher,
        rejection_sampling=rejection_sampling,
    )
    return policy_loss(
        logprobs,
        proximal_logprobs,
        proximal_logprobs if old_logprobs is None else old_logprobs,
        advantages,
        loss_mask,
        options,
        cu_seqlens=cu_seqlens,
    )


def _apply_gate(
    options: PolicyLossOptions,
    ratio: torch.Tensor,
    logprobs: torch.Tensor,
    advantages: torch.Tensor,
) -> GatedLoss:
    bounds = (options.eps_clip, options.eps_clip_higher)
    if options.gate == "cispo":
        return cispo_gate(ratio, logprobs, advantages, *bounds)
    if options.gate == "sapo":
        return sapo_gate(ratio, advantages, options.sapo_tau_pos, options.sapo_tau_neg)
    return clip_gate(ratio, advantages, *bounds, options.c_clip)


@torch.no_grad()
def _gate_stats(
    ratio: torch.Tensor,
    gated: GatedLoss,
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    mask: torch.Tensor,
) -> Stats:
    return {
        "importance_weight": ratio.detach() * mask,
        "approx_kl": _masked_kl(proximal_logprobs, logprobs, mask),
        "clip_mask": gated.is_clipped & mask,
        "dual_clip_mask": gated.is_dual_clipped & mask,
        **{name: torch.where(mask, value, 0.0) for name, value in gated.stats.items()},
    }


@torch.no_grad()
def _masked_kl(
    sampler_logprobs: torch.Tensor, other_logprobs: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the k3 estimate of KL(sampler || other), which is never negative."""
    return KLEstimator("k3")(masked_log_ratio(sampler_logprobs, other_logprobs, mask), 0.0)
