"""Brings tokens into the order of their experts and back.

Shape letters: T tokens, K experts per token, N = T * K choices, E experts, D features.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn


class TokenReorderer(nn.Module):
    """Sorts choices by expert, those of one expert in the order of their tokens.

    Args:
        num_experts: All that a token can choose.
        top_k: Experts per token.
    """

    def __init__(self, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.num_experts = num_experts
        self.top_k = top_k

    def forward(self, scores_TK: Tensor, chosen_TK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sort choices.

        Returns:
            The weights in the new order [N], the choice at each place [N], and tokens
            per expert [E].
        """
        sorted_N, order_N = torch.sort(chosen_TK.reshape(-1), stable=True)
        experts_E = torch.arange(self.num_experts, device=sorted_N.device)
        # Sorted already: two searches count without atomics and without waiting for a GPU.
        ends_E = torch.searchsorted(sorted_N, experts_E, right=True)
        counts_E = torch.diff(ends_E, prepend=ends_E.new_zeros(1))
        return scores_TK.reshape(-1)[order_N], order_N, counts_E


def permute_tokens(x_TD: Tensor, order_N: Tensor, top_k: int) -> Tensor:
    """Return the token of each choice, in the order of the experts [N, D]."""
    return x_TD.index_select(0, order_N // top_k)


def unpermute_tokens(y_ND: Tensor, order_N: Tensor, num_choices: int) -> Tensor:
    """Return rows in the order of tokens again; a choice that is not among them is zero.

    Args:
        y_ND: In the order of experts.
        order_N: The choice at each place.
        num_choices: Of all tokens.
    """
    zeros = y_ND.new_zeros(num_choices, y_ND.shape[-1])
    return zeros.index_copy(0, order_N, y_ND)


def merge_expert_outputs(y_ND: Tensor, scores_TK: Tensor | None, top_k: int) -> Tensor:
    """Add up each token's experts, in a fixed order, so that the sum is the same every time.

    Args:
        y_ND: In the order of tokens.
        scores_TK: Weights; None means that they are in already.
        top_k: Rows per token.

    Returns:
        [T, D].
    """
    y_TKD = y_ND.unflatten(0, (-1, top_k))
    if y_ND.dtype == torch.float32:
        if scores_TK is None:
            return y_TKD.sum(dim=1)
        return torch.bmm(scores_TK.to(y_ND.dtype).unsqueeze(1), y_TKD).squeeze(1)
    if scores_TK is not None:
        y_TKD = (y_TKD * scores_TK.unsqueeze(-1)).to(y_ND.dtype)
    # Each sum is rounded, as adding one expert after another into the output does.
    first, *others = y_TKD.unbind(dim=1)
    return functools.reduce(torch.add, others, first)
