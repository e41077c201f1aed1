"""Backend for packed batches: no work between sequences, on any device."""

from __future__ import annotations

from torch import Tensor

from areal.experimental.models.archon.attention.cpu import cpu_attention
from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.attention.flash import cuda_attention
from areal.experimental.models.archon.layers.packing import Packing


def varlen_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention inside each sequence, [1, H, T, Dv]."""
    attend = cuda_attention if q.is_cuda else cpu_attention
    return attend(q, k, v, scale=scale, packing=packing, features=features)
