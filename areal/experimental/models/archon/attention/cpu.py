"""Packed attention on a CPU: padded rows of similar length, one kernel call for each bucket.

Shape letters: n rows, H heads, K key-value heads, L padded length, D head size.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.attention.heads import pad_heads, with_key_bias
from areal.experimental.models.archon.attention.masked import masked_attention
from areal.experimental.models.archon.attention.sinks import add_sinks, sink_gradient
from areal.experimental.models.archon.attention.softcap import softcap_attention
from areal.experimental.models.archon.layers.packing import Packing

# Windowed rows of at least this many blocks are attended to block by block; below, one mask costs
# less than the copies.
MIN_BLOCKS = 3
MIN_BLOCK = 64


def cpu_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention inside each sequence, [1, H, T, Dv]."""
    if features.chunk is not None:
        packing = packing.in_chunks(features.chunk)
    if not features.causal:
        return _attend_both_ways(q, k, v, scale, packing, features)
    value_dim, dtype = v.shape[-1], q.dtype
    # Capped scores are written out, and must not be rounded between the steps.
    if not _is_fast(dtype) or (features.softcap is not None and dtype != torch.float64):
        q, k, v = q.float(), k.float(), v.float()
    if features.key_bias is not None:
        q, k, v = with_key_bias(q, k, v, features.key_bias.of(packing.positions), scale)
    if features.softcap is None:
        q, k, v = pad_heads(1, q, k, v)
    rows = packing.rows(q.shape[1] * q.shape[3])
    outputs = [
        _attend_rows(*each, scale, packing, features)
        for each in zip(*(rows.split(x[0]) for x in (q, k, v)), strict=True)
    ]
    joined = rows.join(outputs)[..., :value_dim]
    return joined.transpose(0, 1).unsqueeze(0).to(dtype)


def _attend_both_ways(
    q: Tensor, k: Tensor, v: Tensor, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return attention of queries that also look ahead, sequence by sequence.

    They would see the padding of rows, so sequences are not batched.
    """
    extras = (features.softcap, features.sinks, features.key_bias)
    if any(extra is not None for extra in extras):
        return masked_attention(q, k, v, scale=scale, packing=packing, features=features)
    dtype, value_dim = q.dtype, v.shape[-1]
    if not _is_fast(dtype):
        q, k, v = q.float(), k.float(), v.float()
    q, k, v = pad_heads(1, q, k, v)
    lengths = [length for length in packing.lengths if length]
    parts = zip(*(x.split(lengths, dim=2) for x in (q, k, v)), strict=True)
    outputs = [_attend_both(*part, scale, packing, features.window) for part in parts]
    return torch.cat(outputs, dim=2)[..., :value_dim].to(dtype)


def _attend_both(
    q: Tensor, k: Tensor, v: Tensor, scale: float, packing: Packing, window: int | None
) -> Tensor:
    length, mask = q.shape[2], None
    if window is not None and window < length:
        key = ("both", length, window, q.dtype)
        mask = packing.once(key, lambda: _window_mask(length, window, q.dtype, is_causal=False))
    is_grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=is_grouped
    )


@functools.cache
def _is_fast(dtype: torch.dtype) -> bool:
    """Return whether this CPU multiplies matrices of a type without emulating it.

    Emulated bf16 attention takes five times as long as casting to fp32 and back.
    """
    if dtype == torch.bfloat16:
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return dtype in (torch.float32, torch.float64)


def _attend_rows(
    q: Tensor, k: Tensor, v: Tensor, scale: float, packing: Packing, features: AttentionFeatures
) -> Tensor:
    """Return causal attention of right-padded rows; no real query sees the padding."""
    length = q.shape[2]
    window = features.window if (features.window or length) < length else None
    if features.softcap is not None:
        return softcap_attention(q, k, v, scale, features.softcap, window, features.sinks)
    if window is None:
        return _sdpa(q, k, v, scale, None, features.sinks)
    block = max(window, MIN_BLOCK)
    if length >= MIN_BLOCKS * block:
        mask = packing.once(
            ("blocks", block, window, q.dtype), lambda: _block_mask(block, window, q.dtype)
        )
        return _attend_blocks(q, k, v, scale, mask, features.sinks)
    mask = packing.once(
        ("window", length, window, q.dtype), lambda: _window_mask(length, window, q.dtype)
    )
    return _sdpa(q, k, v, scale, mask, features.sinks)


def _window_mask(length: int, window: int, dtype: torch.dtype, is_causal: bool = True) -> Tensor:
    """Return [L, L], 0 where a key is seen and -inf where not: the kernel's own form of a mask."""
    token = torch.arange(length)
    distance = token[:, None] - token[None, :]
    return _as_bias(distance if is_causal else distance.abs(), window, dtype)


def _block_mask(block: int, window: int, dtype: torch.dtype) -> Tensor:
    """Return the mask of a block of queries over its own keys and those of the block before."""
    distance = block + torch.arange(block)[:, None] - torch.arange(2 * block)[None, :]
    return _as_bias(distance, window, dtype)


def _as_bias(distance: Tensor, window: int, dtype: torch.dtype) -> Tensor:
    hidden = (distance < 0) | (distance >= window)
    return torch.zeros(distance.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)


def _attend_blocks(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor, sinks: Tensor | None
) -> Tensor:
    """Return windowed attention at a cost of L times the window instead of L squared."""
    rows, length = q.shape[0], q.shape[2]
    block = mask.shape[0]
    blocks = -(-length // block)
    q, k, v = (F.pad(x, (0, 0, 0, blocks * block - length)) for x in (q, k, v))
    first = _sdpa(*(x[:, :, :block] for x in (q, k, v)), scale, mask[:, block:].contiguous(), sinks)
    queries = q[:, :, block:].unflatten(2, (blocks - 1, block)).transpose(1, 2).flatten(0, 1)
    # Overlapping views: each block of keys with the one before it.
    k, v = (x.unfold(2, 2 * block, block).permute(0, 2, 1, 4, 3).flatten(0, 1) for x in (k, v))
    rest = _sdpa(queries, k, v, scale, mask, sinks)
    rest = rest.unflatten(0, (rows, blocks - 1)).transpose(1, 2).flatten(2, 3)
    return torch.cat((first, rest), dim=2)[:, :, :length]


def _sdpa(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, sinks: Tensor | None
) -> Tensor:
    if sinks is not None:
        return _SinkAttention.apply(q, k, v, sinks, mask, scale)
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )


class _SinkAttention(torch.autograd.Function):
    """Wraps the CPU flash kernel by ``attention.sinks``."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sinks: Tensor,
        mask: Tensor | None,
        scale: float,
    ) -> Tensor:
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, mask is None, attn_mask=mask, scale=scale
        )
        out, lse = add_sinks(out, lse, sinks[:, None])
        ctx.save_for_backward(q, k, v, sinks, out, lse, mask)
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sinks, out, lse, mask = ctx.saved_tensors
        grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad_out, q, k, v, out, lse, 0.0, mask is None, attn_mask=mask, scale=ctx.scale
        )
        grad_sinks = sink_gradient(out, lse, grad_out, sinks[:, None]).sum((0, 2))
        return (*grads, grad_sinks.to(sinks.dtype), None, None)
