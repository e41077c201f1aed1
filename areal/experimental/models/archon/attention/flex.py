"""Packed attention on CUDA by flex attention: any mask, any score, compiled.

Shape letters: H heads, K key-value heads, T tokens of the packed row, D head size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from areal.experimental.models.archon.attention.cpu import cpu_attention
from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.layers.packing import Packing


def flex_packed_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention inside each sequence; on a CPU by the rows that other backends use there.

    Flex attention has no backward on a CPU.
    """
    if not q.is_cuda:
        return cpu_attention(q, k, v, scale=scale, packing=packing, features=features)
    if features.chunk is not None:
        packing = packing.in_chunks(features.chunk)
    key = ("flex", features.causal, features.window)
    mask = packing.once(key, lambda: _block_mask(packing, features))
    out, lse = _compiled()(
        q,
        k,
        v,
        score_mod=_score_mod(packing, features),
        block_mask=mask,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
        return_lse=True,
    )
    if features.sinks is None:
        return out
    share = torch.sigmoid(lse - features.sinks.float()[:, None])
    return (out * share.unsqueeze(-1)).to(out.dtype)


@functools.cache
def _compiled() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def _block_mask(packing: Packing, features: AttentionFeatures) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    sequence = packing.sequence_ids
    window, causal = features.window, features.causal

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        keep = sequence[query] == sequence[key]
        if causal:
            keep = keep & (query >= key)
        if window is not None:
            keep = keep & (query - key < window)
            if not causal:
                keep = keep & (key - query < window)
        return keep

    total = sequence.shape[0]
    return create_block_mask(seen, None, None, total, total, device=sequence.device)


def _score_mod(
    packing: Packing, features: AttentionFeatures
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None:
    """Return what changes a score, or None where nothing does."""
    softcap = features.softcap
    bias = None
    if features.key_bias is not None:
        bias = features.key_bias.of(packing.positions)
    if softcap is None and bias is None:
        return None

    def change(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        if bias is not None:
            score = score + bias[head, key]
        return score

    return change
