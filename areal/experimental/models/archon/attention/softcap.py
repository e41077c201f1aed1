"""Attention with capped scores, which no fused CPU kernel has: blocks of queries, recomputed.

Only the output and the log-sum-exp are kept for backward, and a block of queries meets only the
keys that it sees, so memory grows with L and not with L squared.

Shape letters: n rows, H heads, K key-value heads, G queries of a key-value head, L padded length, D
head size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from areal.experimental.models.archon.attention.sinks import sink_gradient

QUERY_BLOCK = 64


def softcap_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    softcap: float,
    window: int | None,
    sinks: Tensor | None,
) -> Tensor:
    """Return causal attention [n, H, L, Dv] with scores ``softcap * tanh(score / softcap)``.

    Args:
        q: [n, H, L, D]; ``k`` is [n, K, L, D], ``v`` [n, K, L, Dv]. Rows are padded to the right.
        window: Number of keys that a query sees, itself included; None for all before it.
        sinks: [H] logits of one more key, whose value is zero.
    """
    grouped = q.unflatten(1, (k.shape[1], -1))
    out = _SoftcapAttention.apply(grouped, k, v, sinks, scale, softcap, window or q.shape[2])
    return out.flatten(1, 2)


def _blocks(length: int, window: int) -> list[tuple[int, int, int]]:
    """Return (first query, last query + 1, first key) of each block; the last key is the query."""
    starts = range(0, length, QUERY_BLOCK)
    return [(s, min(s + QUERY_BLOCK, length), max(0, s + 1 - window)) for s in starts]


def _capped_scores(
    q: Tensor, k: Tensor, block: tuple[int, int, int], scale: float, softcap: float, window: int
) -> tuple[Tensor, Tensor]:
    """Return a block's scores [n, K, G, block, keys], -inf where unseen, and their tanh."""
    start, stop, first = block
    part = q[:, :, :, start:stop]
    scores = part.flatten(2, 3) @ k[:, :, first:stop].transpose(-1, -2)
    tanh = scores.mul_(scale / softcap).tanh_().view(*part.shape[:-1], -1)
    distance = torch.arange(start, stop, device=q.device)[:, None]
    distance = distance - torch.arange(first, stop, device=q.device)
    hidden = (distance < 0) | (distance >= window)
    return (tanh * softcap).masked_fill_(hidden, -torch.inf), tanh


class _SoftcapAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sinks: Tensor | None,
        scale: float,
        softcap: float,
        window: int,
    ) -> Tensor:
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        lse = q.new_empty(q.shape[:-1])
        sink = None if sinks is None else sinks.to(q.dtype).view(*q.shape[1:3], 1)
        for block in _blocks(q.shape[3], window):
            start, stop, first = block
            scores, _ = _capped_scores(q, k, block, scale, softcap, window)
            total = scores.logsumexp(-1)
            if sink is not None:
                total = torch.logaddexp(total, sink)
            lse[:, :, :, start:stop] = total
            weights = scores.sub_(total.unsqueeze(-1)).exp_()
            mixed = weights.flatten(2, 3) @ v[:, :, first:stop]
            out[:, :, :, start:stop] = mixed.view(*weights.shape[:-1], -1)
        ctx.save_for_backward(q, k, v, sinks, out, lse)
        ctx.options = (scale, softcap, window)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sinks, out, lse = ctx.saved_tensors
        scale, softcap, window = ctx.options
        delta = (out * grad_out).sum(-1, keepdim=True)
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for block in _blocks(q.shape[3], window):
            start, stop, first = block
            scores, tanh = _capped_scores(q, k, block, scale, softcap, window)
            weights = scores.sub_(lse[:, :, :, start:stop].unsqueeze(-1)).exp_().flatten(2, 3)
            upper = grad_out[:, :, :, start:stop].flatten(2, 3)
            grad_v[:, :, first:stop] += weights.transpose(-1, -2) @ upper
            grad = upper @ v[:, :, first:stop].transpose(-1, -2)
            grad.sub_(delta[:, :, :, start:stop].flatten(2, 3)).mul_(weights)
            # d tanh(x) = 1 - tanh(x)^2; softcap and 1 / softcap cancel.
            grad.mul_(1.0 - tanh.flatten(2, 3).square()).mul_(scale)
            part = q[:, :, :, start:stop]
            grad_q[:, :, :, start:stop] = (grad @ k[:, :, first:stop]).view_as(part)
            grad_k[:, :, first:stop] += grad.transpose(-1, -2) @ part.flatten(2, 3)
        grad_sinks = None
        if sinks is not None:
            each = sink_gradient(out, lse, grad_out, sinks.view(*q.shape[1:3], 1))
            grad_sinks = each.sum((0, 3)).flatten().to(sinks.dtype)
        return grad_q, grad_k, grad_v, grad_sinks, None, None, None
