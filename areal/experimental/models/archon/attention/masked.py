"""Reference backend: one mask over the whole packed row, and the definition written out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.packing import Packing


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Returns attention under a block-causal mask [T, T]; costs T squared whatever the lengths."""
    key = ("mask", q.shape[2], features.causal, features.window, features.chunk)
    mask = packing.once(key, lambda: packed_mask(packing, q.shape[2], features))
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def packed_mask(packing: Packing, total: int, features: AttentionFeatures) -> Tensor:
    """Returns [T, T], True where the query of the row sees the key of the column."""
    sequence = packing.sequence_ids
    token = torch.arange(total, device=sequence.device)
    seen = sequence[:, None] == sequence[None, :]
    distance = token[:, None] - token[None, :]
    if features.causal:
        seen &= distance >= 0
    if features.window is not None:
        seen &= distance < features.window
    return seen
