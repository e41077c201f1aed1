"""Rotary positions of Gemma2."""

from areal.experimental.models.archon.layers.rope import (
    RopeArgs,
    RopeTable,
    RotaryEmbedding,
    apply_rotary,
    apply_rotary_emb,
    precompute_rope_cache,
    repeat_kv,
    reshape_for_broadcast,
    rotate_half,
)

__all__ = [
    "RopeArgs",
    "RopeTable",
    "RotaryEmbedding",
    "apply_rotary",
    "apply_rotary_emb",
    "precompute_rope_cache",
    "repeat_kv",
    "reshape_for_broadcast",
    "rotate_half",
]
