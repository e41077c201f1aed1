"""Packed attention as one function, for callers that are no layer of a model."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.attention.core import AttentionCore
from areal.experimental.models.archon.layers.packing import refuse_tree_attention, whole_row


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    cu_seqlens: Tensor,
    max_seqlen: int | Tensor,
    tree_attn_meta: Any = None,
    attn_type: str = "varlen",
    sinks: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Return attention [1, H, T, Dv] inside each sequence of a packed row.

    Args:
        q: [1, H, T, D]; ``k`` is [1, K, T, D] and ``v`` [1, K, T, Dv].
        scale: Factor on the scores; 1 / sqrt(D) when None.
        cu_seqlens: [B + 1] where each sequence starts, then T.
        max_seqlen: Tokens of the longest sequence.
        attn_type: Backend, a key of ``ATTENTION_BACKENDS``.
        options: ``window``, ``chunk``, ``softcap``, ``causal`` of ``AttentionCore``.

    Raises:
        ConfigError: The batch has several rows or a tree, or the backend is unknown.
    """
    refuse_tree_attention(tree_attn_meta)
    if q.shape[0] != 1:
        raise ConfigError(f"a batch of {q.shape[0]} rows: pack the sequences into one")
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    core = AttentionCore(0, attn_type, scale=factor, **options)
    packing = whole_row(q.shape[2], cu_seqlens, max_seqlen)
    return core(q, k, v, packing, sinks=sinks, alibi_slopes=alibi_slopes)
