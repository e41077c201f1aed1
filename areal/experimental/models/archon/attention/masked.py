"""Reference backend: one mask over the whole packed row, and the definition written out.

Shape letters: H heads, K key-value heads, T tokens of the packed row, D head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.layers.packing import Packing


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention under one mask [T, T]; costs T squared whatever the lengths."""
    if features.chunk is not None:
        packing = packing.in_chunks(features.chunk)
    key = ("mask", features.causal, features.window)
    mask = packing.once(key, lambda: packed_mask(packing, features))
    if features.softcap is None and features.sinks is None and features.key_bias is None:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
    return _by_definition(q, k, v, scale, mask, packing, features)


def eager_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention with the roundings of transformers' eager path; for comparisons.

    Scores are in the type of the inputs, and only the softmax is in fp32.
    """
    if features.chunk is not None:
        packing = packing.in_chunks(features.chunk)
    key = ("mask", features.causal, features.window)
    mask = packing.once(key, lambda: packed_mask(packing, features))
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    if features.softcap is not None:
        scores = torch.tanh(scores / features.softcap) * features.softcap
    if features.key_bias is not None:
        scores = scores + features.key_bias.of(packing.positions)[:, None, :].to(scores.dtype)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    if features.sinks is None:
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(weights, v)
    sinks = features.sinks.to(scores.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
    scores = torch.cat((scores, sinks), dim=-1)
    # gpt-oss subtracts the largest score and stays in the type of the inputs.
    weights = torch.softmax(scores - scores.amax(-1, keepdim=True), dim=-1)[..., :-1]
    return torch.matmul(weights, v)


def packed_mask(packing: Packing, features: AttentionFeatures) -> Tensor:
    """Return [T, T], True where the query of the row sees the key of the column."""
    sequence = packing.sequence_ids
    token = torch.arange(sequence.shape[0], device=sequence.device)
    seen = sequence[:, None] == sequence[None, :]
    distance = token[:, None] - token[None, :]
    if features.causal:
        seen &= distance >= 0
    if features.window is not None:
        reach = distance if features.causal else distance.abs()
        seen &= reach < features.window
    return seen


def _by_definition(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor,
    packing: Packing,
    features: AttentionFeatures,
) -> Tensor:
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if features.softcap is not None:
        scores = features.softcap * torch.tanh(scores / features.softcap)
    if features.key_bias is not None:
        scores = scores + features.key_bias.of(packing.positions)[:, None, :]
    scores = scores.masked_fill(~mask, -torch.inf)
    if features.sinks is not None:
        sinks = features.sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sinks), dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : k.shape[2]]
    return weights.to(v.dtype) @ v
