"""Olmo2: a decoder with grouped queries and a gated feed-forward.

Source: transformers 5.23.0, Olmo2ForCausalLM.
"""

from __future__ import annotations

from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary
from areal.experimental.models.archon.olmo2.model.args import Olmo2ModelArgs


class Attention(nn.Module):
    """Attends with grouped queries and norms queries and keys before rotating."""

    def __init__(self, args: Olmo2ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=args.attention_bias)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=args.attention_bias)
        self.q_norm = RMSNorm(args.n_heads * args.head_dim, args.norm_eps, weight_in_fp32=True)
        self.k_norm = RMSNorm(args.n_kv_heads * args.head_dim, args.norm_eps, weight_in_fp32=True)
        self.core = AttentionCore(layer_id, args.attn_type, scale=args.head_dim**-0.5)

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = split_heads(self.q_norm(self.wq(x)), self.head_dim)
        k = split_heads(self.k_norm(self.wk(x)), self.head_dim)
        v = split_heads(self.wv(x), self.head_dim)
        q = apply_rotary(q, rope)
        k = apply_rotary(k, rope)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention, then the feed-forward, each normed afterwards."""

    def __init__(self, args: Olmo2ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention = Attention(args, layer_id)
        self.attention_post_norm = RMSNorm(args.dim, args.norm_eps, weight_in_fp32=True)
        self.feed_forward = GatedFeedForward(args.dim, args.hidden_dim, args.hidden_act)
        self.ffn_post_norm = RMSNorm(args.dim, args.norm_eps, weight_in_fp32=True)

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        h = x + self.attention_post_norm(self.attention(x, rope, packing))
        return h + self.ffn_post_norm(self.feed_forward(h))


class Olmo2Model(BaseDecoder):
    """Olmo2 for causal language modelling, or as a critic."""

    def __init__(self, args: Olmo2ModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=args.pad_token_id)
        self.rope = RotaryEmbedding(args.rope, in_fp32="tables")
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = RMSNorm(args.dim, args.norm_eps, weight_in_fp32=True)
        if args.is_critic:
            self.output = None
            self.score = nn.Linear(args.dim, args.num_labels, bias=False)
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
            self.score = None
        self.tie_weights()
