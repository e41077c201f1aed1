"""Backend for packed batches: no work between sequences.

On CUDA it is flash attention over ``cu_seqlens``, on a CPU one SDPA call for each bucket of similar
lengths.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.packing import Packing


def varlen_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Returns attention inside each sequence."""
    if q.is_cuda:
        return _flash(q, k, v, scale, packing, features)
    outputs = []
    for bucket in packing.rows.buckets:
        rows = (bucket.rows(x[0]) for x in (q, k, v))
        mask = packing.once(
            ("window", bucket.length, features.window),
            lambda length=bucket.length: _window_mask(length, features.window, q.device),
        )
        outputs.append(
            F.scaled_dot_product_attention(
                *rows,
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
                enable_gqa=q.shape[1] != k.shape[1],
            )
        )
    return packing.rows.join(outputs).transpose(0, 1).unsqueeze(0)


def _window_mask(length: int, window: int | None, device: torch.device) -> Tensor | None:
    """Returns the causal mask of a window that is shorter than the rows, else None."""
    if window is None or window >= length:
        return None
    token = torch.arange(length, device=device)
    distance = token[:, None] - token[None, :]
    return (distance >= 0) & (distance < window)


def _flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    packing: Packing,
    features: AttentionFeatures,
) -> Tensor:
    # The module needs a CUDA build; importing it on a CPU is allowed but useless.
    from torch.nn.attention.varlen import varlen_attn

    left = -1 if features.window is None else features.window - 1
    out = varlen_attn(
        *(x[0].transpose(0, 1) for x in (q, k, v)),
        packing.cu_seqlens,
        packing.cu_seqlens,
        packing.max_seqlen,
        packing.max_seqlen,
        scale=scale,
        window_size=(left, 0),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.transpose(0, 1).unsqueeze(0)
