"""Routed experts: all of a layer's in three tensors, computed together.

Shape letters: N rows (choices in the order of their experts), E experts, H one's width, D features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from areal.experimental.models.archon.layers.feed_forward import get_activation
from areal.experimental.models.archon.moe.args import MoEArgs
from areal.experimental.models.archon.moe.grouped_mm import grouped_linear


class GroupedExperts(nn.Module):
    """Computes ``w2(act(w1(x)) * w3(x))`` with each row's own expert; ungated without ``w3(x)``.

    Args:
        dim: Features of a token.
        hidden_dim: Width of one expert.
        args: Activation, limits, biases.
    """

    def __init__(self, dim: int, hidden_dim: int, args: MoEArgs) -> None:
        super().__init__()
        self.num_experts = args.num_experts
        self.use_grouped_mm = args.use_grouped_mm
        self.w1 = nn.Parameter(torch.empty(args.num_experts, hidden_dim, dim))
        self.w2 = nn.Parameter(torch.empty(args.num_experts, dim, hidden_dim))
        self.w3 = self.b1 = self.b2 = self.b3 = None
        if args.gated:
            self.w3 = nn.Parameter(torch.empty(args.num_experts, hidden_dim, dim))
        if args.expert_bias_terms:
            self.b1 = nn.Parameter(torch.empty(args.num_experts, hidden_dim))
            self.b2 = nn.Parameter(torch.empty(args.num_experts, dim))
            if args.gated:
                self.b3 = nn.Parameter(torch.empty(args.num_experts, hidden_dim))
        self.gate = GateFunction(args)
        self.share = 1.0
        """Of the output bias that this process adds, where several add up parts of an expert."""
        self.local: Callable[[Tensor], Tensor] = to_local

    def forward(self, x_ND: Tensor, num_tokens_per_expert: Tensor) -> Tensor:
        """Run every expert on its rows.

        Args:
            x_ND: Rows of expert 0, then of expert 1, and so on; others after them are ignored.
            num_tokens_per_expert: [E], as many as this module holds.

        Returns:
            [N, D]; undefined in rows beyond the counts.
        """
        ends_E = num_tokens_per_expert.cumsum(0)
        gate_NH = self._project(x_ND, self.w1, self.b1, ends_E)
        up_NH = None if self.w3 is None else self._project(x_ND, self.w3, self.b3, ends_E)
        hidden_NH = self.gate(gate_NH, up_NH)
        return self._project(hidden_NH, self.w2, self.b2, ends_E, self.share)

    def _project(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, ends_E: Tensor, share: float = 1.0
    ) -> Tensor:
        weight = self.local(weight)
        y = grouped_linear(x.to(weight.dtype), weight, ends_E, self.use_grouped_mm)
        if bias is None:
            return y
        bias = self.local(bias) * share
        rows_N = torch.arange(x.shape[0], device=x.device)
        expert_N = torch.searchsorted(ends_E, rows_N, right=True).clamp(max=ends_E.numel() - 1)
        return y + bias.index_select(0, expert_N)

    def init_weights(self, init_std: float) -> None:
        """Draw the matrices from a truncated normal and set the biases to zero."""
        for name, parameter in self.named_parameters():
            if name.startswith("w"):
                nn.init.trunc_normal_(parameter, std=init_std)
            else:
                nn.init.zeros_(parameter)

    def extra_repr(self) -> str:
        """Return the sizes, for the printed model."""
        return "experts={}, hidden_dim={}, dim={}".format(*self.w1.shape)


class GateFunction(nn.Module):
    """Multiplies the activation of one half with the other half, if there is one.

    Args:
        args: Activation, limits and offset.

    Source: the limits and the offset are gpt-oss's, whose activation is ``g * sigmoid(alpha * g)``.
    """

    def __init__(self, args: MoEArgs) -> None:
        super().__init__()
        self.alpha = args.gate_alpha
        self.gate_limit = args.gate_limit
        self.up_limit = args.up_limit
        self.up_offset = args.up_offset
        self.act: Callable[[Tensor], Tensor] = get_activation(args.activation)

    def forward(self, gate: Tensor, up: Tensor | None) -> Tensor:
        if self.gate_limit is not None:
            gate = gate.clamp(max=self.gate_limit)
        activated = self.act(gate) if self.alpha is None else gate * (gate * self.alpha).sigmoid()
        if up is None:
            return activated
        if self.up_limit is not None:
            up = up.clamp(-self.up_limit, self.up_limit)
        if self.up_offset:
            up = up + self.up_offset
        return activated * up


def to_local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a distributed tensor, and any other tensor as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
