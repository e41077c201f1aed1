"""The mixture-of-experts layer.

Shape letters: T tokens, K experts per token, N = T * K choices, E experts, D features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.layers.feed_forward import FeedForward, GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.moe.args import MoEArgs
from areal.experimental.models.archon.moe.experts import GroupedExperts, to_local
from areal.experimental.models.archon.moe.router import TokenChoiceTopKRouter
from areal.experimental.models.archon.moe.utils import (
    TokenReorderer,
    merge_expert_outputs,
    permute_tokens,
    unpermute_tokens,
)


class MoE(nn.Module):
    """Adds up the experts that each token chooses, and the experts that all tokens share.

    ``init_buffers`` must run before the first forward when there is an expert bias.

    Args:
        args: The layer's options.
        dim: Features of a token.
        hidden_dim: Width of one routed expert.
    """

    def __init__(self, args: MoEArgs, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.args = args
        self.router = TokenChoiceTopKRouter(dim, args)
        self.reorderer = TokenReorderer(args.num_routes, args.top_k)
        self.experts = GroupedExperts(dim, hidden_dim, args)
        self.shared_experts = _shared_experts(args, dim, hidden_dim)
        self.shared_expert_gate = (
            nn.Linear(dim, 1, bias=False) if args.use_shared_expert_gate else None
        )
        self.post_norm = None if args.post_norm_eps is None else RMSNorm(dim, args.post_norm_eps)
        self.exchange = TokenExchange()
        self.has_expert_bias = args.use_expert_bias or args.load_balance_coeff is not None
        if self.has_expert_bias:
            self.register_buffer(
                "expert_bias", torch.empty(args.num_routes), persistent=args.use_expert_bias
            )
            self.register_buffer(
                "tokens_per_expert", torch.empty(args.num_routes), persistent=False
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output, of the shape of ``x`` [..., D]."""
        x = self.exchange.gather(x)
        x_TD = x.reshape(-1, x.shape[-1])
        out_TD = self._route(x_TD)
        if self.shared_experts is not None:
            out_TD = out_TD + self._share(x_TD)
            if self.args.output_scale != 1:
                out_TD = out_TD * self.args.output_scale
        out = self.exchange.reduce(out_TD.reshape(x.shape))
        return out if self.post_norm is None else self.post_norm(out)

    def _route(self, x_TD: Tensor) -> Tensor:
        args = self.args
        bias_E = self.expert_bias if self.has_expert_bias else None
        scores_TK, chosen_TK, counts_E = self.router(x_TD, bias_E)
        # A token's experts are added up in their order, which below fp32 decides the sum.
        chosen_TK, place_TK = chosen_TK.sort(dim=-1)
        scores_TK = scores_TK.gather(-1, place_TK)
        if not args.weights_in_fp32:
            scores_TK = scores_TK.to(x_TD.dtype)
        if self.training and args.load_balance_coeff is not None:
            self.tokens_per_expert.add_(counts_E)
        scores_N, order_N, counts_E = self.reorderer(scores_TK, chosen_TK)
        x_ND = permute_tokens(x_TD, order_N, args.top_k)
        if args.score_before_experts:
            x_ND = x_ND * scores_N.to(x_ND.dtype).unsqueeze(-1)
        y_ND = self._run_experts(x_ND, counts_E)
        y_ND = unpermute_tokens(y_ND, order_N, scores_TK.numel())
        weights_TK = None if args.score_before_experts else scores_TK
        return merge_expert_outputs(y_ND, weights_TK, args.top_k)

    def _run_experts(self, x_ND: Tensor, counts_E: Tensor) -> Tensor:
        if not self.args.num_zero_experts:
            return self.experts(x_ND, counts_E)
        counts_E = counts_E[: self.args.num_experts]
        rows = torch.arange(x_ND.shape[0], device=x_ND.device)
        is_routed = (rows < counts_E.sum()).unsqueeze(-1)
        # Both ways: the experts leave those rows undefined, and so does their gradient.
        y_ND = self.experts(torch.where(is_routed, x_ND, 0), counts_E)
        return torch.where(is_routed, y_ND, x_ND * self.exchange.share)

    def _share(self, x_TD: Tensor) -> Tensor:
        assert self.shared_experts is not None
        out_TD = self.shared_experts(x_TD)
        if self.shared_expert_gate is None:
            return out_TD
        return self.shared_expert_gate(x_TD).sigmoid() * out_TD

    def init_buffers(self, buffer_device: torch.device | str) -> None:
        """Set the expert bias and the counts to zero on a device."""
        if self.has_expert_bias:
            for name in ("expert_bias", "tokens_per_expert"):
                zeros = torch.zeros(self.args.num_routes, device=buffer_device)
                setattr(self, name, zeros)

    def init_weights(self, init_std: float, buffer_device: torch.device | str) -> None:
        """Draw all weights, and set the buffers."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=init_std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.experts.init_weights(init_std)
        if self.post_norm is not None:
            self.post_norm.reset_parameters()
        self.init_buffers(buffer_device)

    @torch.no_grad()
    def update_expert_bias(self) -> None:
        """Move the expert bias towards equal load, from the tokens counted since the last call.

        Source: Wang et al. 2024, arXiv:2408.15664, algorithm 1.
        """
        coeff = self.args.load_balance_coeff
        if coeff is None:
            return
        bias, counts = to_local(self.expert_bias), self.tokens_per_expert
        step = coeff * torch.sign(counts.mean() - counts)
        # A shift of all experts changes no choice: without its mean the bias does not drift.
        bias.add_(step - step.mean())
        counts.zero_()


class TokenExchange(nn.Module):
    """Brings together the tokens that a layer computes on; this one has them all already."""

    share = 1.0
    """Of what every process computes in full and ``reduce`` adds up."""

    def gather(self, x: Tensor) -> Tensor:
        """Return all tokens that this rank works on."""
        return x

    def reduce(self, out: Tensor) -> Tensor:
        """Add up the parts of the output that ranks computed, and return this rank's tokens."""
        return out


def _shared_experts(args: MoEArgs, dim: int, hidden_dim: int) -> nn.Module | None:
    if args.num_shared_experts == 0:
        return None
    width = args.shared_expert_intermediate_size or args.num_shared_experts * hidden_dim
    activation = args.shared_activation or args.activation
    kind = GatedFeedForward if args.gated else FeedForward
    return kind(dim, width, activation, bias=args.shared_bias)
