"""Packed attention on CUDA by flash attention over ``cu_seqlens``; nothing waits for the device.

Shape letters: H heads, K key-value heads, T tokens of the packed row, D head size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.attention.flex import flex_packed_attention
from areal.experimental.models.archon.attention.heads import pad_heads, with_key_bias
from areal.experimental.models.archon.attention.sinks import add_sinks, sink_gradient
from areal.experimental.models.archon.layers.packing import Packing

# What the kernel takes: 16-bit types, heads of a multiple of 8 up to 256.
# Source: `aten::_flash_attention_forward`.
_DTYPES = (torch.bfloat16, torch.float16)
_MULTIPLE = 8
_LARGEST = 256


def cuda_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention inside each sequence, by flex attention where flash lacks something."""
    size = max(q.shape[-1], v.shape[-1]) + (_MULTIPLE if features.key_bias is not None else 0)
    if features.softcap is not None or q.dtype not in _DTYPES or size > _LARGEST:
        return flex_packed_attention(q, k, v, scale=scale, packing=packing, features=features)
    if features.chunk is not None:
        packing = packing.in_chunks(features.chunk)
    value_dim = v.shape[-1]
    if features.key_bias is not None:
        q, k, v = with_key_bias(q, k, v, features.key_bias.of(packing.positions), scale)
    q, k, v = pad_heads(_MULTIPLE, q, k, v)
    left = -1 if features.window is None else features.window - 1
    window = [left, 0 if features.causal else left]
    q_THD, k_TKD, v_TKD = (x[0].transpose(0, 1) for x in (q, k, v))
    if features.sinks is None:
        out = _flash(q_THD, k_TKD, v_TKD, packing, scale, window)[0]
    else:
        out = _SinkAttention.apply(q_THD, k_TKD, v_TKD, features.sinks, packing, scale, window)
    return out[..., :value_dim].transpose(0, 1).unsqueeze(0)


def _flash(
    q: Tensor, k: Tensor, v: Tensor, packing: Packing, scale: float, window: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return output [T, H, D], log-sum-exp [H, T] and the state of the random generator."""
    # The import registers the operator; it is kept off the path of CPU-only use.
    import torch.nn.attention.varlen

    return torch.ops.torch_attn._varlen_attn(
        q,
        k,
        v,
        packing.cu_seqlens,
        packing.cu_seqlens,
        packing.max_seqlen,
        packing.max_seqlen,
        window == [-1, 0],
        scale,
        window,
        q.shape[1] != k.shape[1],
    )


class _SinkAttention(torch.autograd.Function):
    """Wraps the CUDA flash kernel by ``attention.sinks``."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sinks: Tensor,
        packing: Packing,
        scale: float,
        window: list[int],
    ) -> Tensor:
        out, lse, random_state = _flash(q, k, v, packing, scale, window)
        out, lse_TH = add_sinks(out, lse.transpose(0, 1), sinks)
        lse = lse_TH.transpose(0, 1).contiguous()
        ctx.save_for_backward(q, k, v, sinks, out, lse, random_state, packing.cu_seqlens)
        ctx.options = (packing.max_seqlen, scale, window)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sinks, out, lse, random_state, cu_seqlens = ctx.saved_tensors
        longest, scale, window = ctx.options
        grads = torch.ops.torch_attn._varlen_attn_backward(
            grad_out.contiguous(),
            q,
            k,
            v,
            out,
            lse,
            cu_seqlens,
            cu_seqlens,
            longest,
            longest,
            window == [-1, 0],
            random_state,
            scale,
            window,
        )
        grad_sinks = sink_gradient(out, lse.transpose(0, 1), grad_out, sinks).sum(0)
        return (*grads, grad_sinks.to(sinks.dtype), None, None, None)
