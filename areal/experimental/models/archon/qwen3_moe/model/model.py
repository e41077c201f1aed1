"""Qwen3Moe: a decoder with grouped queries and a mixture of experts.

Source: transformers 5.23.0, Qwen3MoeForCausalLM.
"""

from __future__ import annotations

from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary
from areal.experimental.models.archon.moe import MoE
from areal.experimental.models.archon.qwen3_moe.model.args import Qwen3MoeModelArgs


class Attention(nn.Module):
    """Attends with grouped queries and norms each head of queries and keys before rotating."""

    def __init__(self, args: Qwen3MoeModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=args.attention_bias)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=args.attention_bias)
        self.q_norm = RMSNorm(args.head_dim, args.norm_eps)
        self.k_norm = RMSNorm(args.head_dim, args.norm_eps)
        self.core = AttentionCore(
            layer_id, args.attn_type, scale=args.head_dim**-0.5, window=args.windows
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = split_heads(self.wq(x), self.head_dim)
        k = split_heads(self.wk(x), self.head_dim)
        v = split_heads(self.wv(x), self.head_dim)
        q = apply_rotary(self.q_norm(q), rope)
        k = apply_rotary(self.k_norm(k), rope)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention, then a mixture of experts or a feed-forward, each on the normed stream."""

    def __init__(self, args: Qwen3MoeModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.attention = Attention(args, layer_id)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)
        self.moe = (
            MoE(args.moe_args, args.dim, args.moe_inter_dim) if args.has_moe[layer_id] else None
        )
        self.feed_forward = (
            GatedFeedForward(args.dim, args.hidden_dim, args.hidden_act)
            if args.has_feed_forward[layer_id]
            else None
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        ffn = self.feed_forward if self.moe is None else self.moe
        h = x + self.attention(self.attention_norm(x), rope, packing)
        return h + ffn(self.ffn_norm(h))


class Qwen3MoeModel(BaseDecoder):
    """Qwen3Moe for causal language modelling, or as a critic."""

    def __init__(self, args: Qwen3MoeModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=args.pad_token_id)
        self.rope = RotaryEmbedding(args.rope)
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = RMSNorm(args.dim, args.norm_eps)
        if args.is_critic:
            self.output = None
            self.score = nn.Linear(args.dim, args.num_labels, bias=False)
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
            self.score = None
        self.tie_weights()
