"""Attention over a packed batch, by one of several backends that compute the same thing."""

from areal.experimental.models.archon.attention.call import packed_attention
from areal.experimental.models.archon.attention.core import ATTENTION_BACKENDS, AttentionCore
from areal.experimental.models.archon.attention.heads import merge_heads, split_heads

__all__ = ["ATTENTION_BACKENDS", "AttentionCore", "merge_heads", "packed_attention", "split_heads"]
