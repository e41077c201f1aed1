"""Chooses experts for tokens: logits, scores, choice, norm.

Shape letters: T tokens, E experts (zero experts included), K experts per token, D features.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from areal.experimental.models.archon.moe.args import MoEArgs


class TokenChoiceTopKRouter(nn.Module):
    """Gives each token its ``top_k`` experts and their weights.

    Args:
        dim: Features of a token.
        args: Which router of all it is.
    """

    def __init__(self, dim: int, args: MoEArgs) -> None:
        super().__init__()
        self.args = args
        self.gate = Gate(dim, args.num_routes, bias=args.router_bias)

    def forward(
        self, x_TD: Tensor, expert_bias_E: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Route tokens.

        Args:
            x_TD: Tokens.
            expert_bias_E: Takes part in the choice, not in the weights.

        Returns:
            Weights [T, K] in fp32, experts [T, K], and tokens per expert [E].
        """
        logits_TE = self.logits(x_TD)
        if self.args.score_func == "sparsemixer":
            scores_TK, chosen_TK = sparsemixer(logits_TE, self.args.sparsemixer_eps)
        else:
            scores_TK, chosen_TK = self._choose(logits_TE, expert_bias_E)
        return self._weigh(scores_TK), chosen_TK, count_tokens(chosen_TK, logits_TE.shape[-1])

    def logits(self, x_TD: Tensor) -> Tensor:
        """Return [T, E] in fp32: small differences decide the choice."""
        logits_TE = self.gate(x_TD, self.args.torch_router_dtype).float()
        cap = self.args.router_softcap
        return torch.tanh(logits_TE / cap) * cap if cap else logits_TE

    def _choose(self, logits_TE: Tensor, bias_E: Tensor | None) -> tuple[Tensor, Tensor]:
        args = self.args
        scores_TE = logits_TE if args.score_after_topk else _score(logits_TE, args.score_func)
        choice_TE = scores_TE if bias_E is None else scores_TE + bias_E
        if args.num_expert_groups != args.num_limited_groups:
            choice_TE = close_groups(
                choice_TE,
                args.num_expert_groups or 1,
                args.num_limited_groups or 1,
                args.group_score_func,
            )
        chosen_TK = choice_TE.topk(args.top_k, dim=-1).indices
        scores_TK = scores_TE.gather(-1, chosen_TK)
        if args.score_after_topk:
            scores_TK = _score(scores_TK, args.score_func)
        return scores_TK, chosen_TK

    def _weigh(self, scores_TK: Tensor) -> Tensor:
        args = self.args
        if args.route_norm:
            p = args.route_norm_p
            # Scores are positive: their 1-norm is the sum, which has no kink.
            norm = scores_TK.sum(-1, True) if p == 1 else scores_TK.norm(p, -1, True)
            if args.route_norm_eps:
                norm = norm + args.route_norm_eps
            if args.route_norm_min:
                norm = norm.clamp(min=args.route_norm_min)
            scores_TK = scores_TK / norm
        return scores_TK if args.route_scale == 1 else scores_TK * args.route_scale


class Gate(nn.Linear):
    """A projection that can run in another dtype than its weight's."""

    def forward(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Project ``x``, in ``dtype`` if it is given."""
        weight, bias = self.weight, self.bias
        if dtype is not None:
            x, weight = x.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        return F.linear(x, weight, bias)


def _score(logits: Tensor, name: str) -> Tensor:
    return logits.sigmoid() if name == "sigmoid" else logits.softmax(dim=-1)


def close_groups(choice_TE: Tensor, groups: int, limited: int, worth: str) -> Tensor:
    """Leave the experts of the best groups open and set the others to minus infinity.

    Args:
        choice_TE: What experts are chosen by.
        groups: Equal parts of the experts, in order.
        limited: Groups that stay open.
        worth: ``max``, or ``top2`` for the sum of the two best.

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.2.2 (max); DeepSeek-V3, arXiv:2412.19437,
    section 2.1.2 (top2).
    """
    grouped = choice_TE.unflatten(-1, (groups, -1))
    value = grouped.amax(-1) if worth == "max" else grouped.topk(2, dim=-1).values.sum(-1)
    open_groups = torch.zeros_like(value, dtype=torch.bool)
    open_groups = open_groups.scatter(-1, value.topk(limited, dim=-1).indices, True)
    return grouped.masked_fill(~open_groups.unsqueeze(-1), float("-inf")).flatten(-2)


def sparsemixer(logits_TE: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Take the best two experts, each weighted among the logits that are near it.

    A logit counts beside the best one if their difference is at most ``2 * eps`` of the larger of
    its magnitude and the best. The second expert is weighted the same way without the first. This
    is the form used in evaluation: it draws no random numbers.

    Returns:
        Weights [T, 2] and experts [T, 2].

    Source: Liu et al. 2024, arXiv:2409.12136, as released with Phi-3.5-MoE.
    """
    weights: list[Tensor] = []
    experts: list[Tensor] = []
    open_TE = logits_TE
    for _ in range(2):
        with torch.no_grad():
            best, expert = open_TE.max(dim=-1, keepdim=True)
            scale = logits_TE.abs().clamp(min=best)
            far = (best - logits_TE) / scale > 2 * eps
        share = open_TE.masked_fill(far, float("-inf")).softmax(dim=-1)
        weights.append(share.gather(-1, expert))
        experts.append(expert)
        open_TE = open_TE.scatter(-1, expert, float("-inf"))
    return torch.cat(weights, dim=-1), torch.cat(experts, dim=-1)


def count_tokens(chosen_TK: Tensor, num_experts: int) -> Tensor:
    """Count tokens per expert [E], exactly and without waiting for a GPU."""
    flat = chosen_TK.reshape(-1)
    counts = torch.zeros(num_experts, dtype=torch.int64, device=flat.device)
    return counts.scatter_add_(0, flat, torch.ones_like(flat))
