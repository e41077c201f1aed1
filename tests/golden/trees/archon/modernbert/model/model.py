"""ModernBert: an encoder with grouped queries and a gated feed-forward.

Source: transformers 5.23.0, ModernBertForSequenceClassification.
"""

from __future__ import annotations

from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.encoder import BaseEncoder
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward, get_activation
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary
from areal.experimental.models.archon.modernbert.model.args import ModernBertModelArgs


class Attention(nn.Module):
    """Attends with grouped queries."""

    def __init__(self, args: ModernBertModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=args.attention_bias)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=args.attention_bias)
        self.core = AttentionCore(
            layer_id,
            args.attn_type,
            scale=args.head_dim**-0.5,
            window=args.windows[layer_id],
            causal=False,
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = split_heads(self.wq(x), self.head_dim)
        k = split_heads(self.wk(x), self.head_dim)
        v = split_heads(self.wv(x), self.head_dim)
        q = apply_rotary(q, rope)
        k = apply_rotary(k, rope)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention and the feed-forward, in an order that the arguments choose."""

    def __init__(self, args: ModernBertModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = (
            nn.LayerNorm(args.dim, args.norm_eps, bias=args.norm_bias)
            if args.has_attention_norm[layer_id]
            else nn.Identity()
        )
        self.attention = Attention(args, layer_id)
        self.ffn_norm = nn.LayerNorm(args.dim, args.norm_eps, bias=args.norm_bias)
        self.feed_forward = GatedFeedForward(
            args.dim, args.hidden_dim, args.hidden_activation, bias=args.mlp_bias
        )
        self.has_order_1 = args.is_first[layer_id]

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        if self.has_order_1:
            h = x + self.attention(x, rope, packing)
            return h + self.feed_forward(self.ffn_norm(h))
        h = x + self.attention(self.attention_norm(x), rope, packing)
        return h + self.feed_forward(self.ffn_norm(h))


class ModernBertModel(BaseEncoder):
    """ModernBert as a reward model: one score for each sequence."""

    def __init__(self, args: ModernBertModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=args.pad_token_id)
        self.embedding_norm = nn.LayerNorm(args.dim, args.norm_eps, bias=args.norm_bias)
        self.ropes = nn.ModuleDict(
            {
                "full_attention": RotaryEmbedding(args.rope_full_attention, in_fp32="products"),
                "sliding_attention": RotaryEmbedding(
                    args.rope_sliding_attention, in_fp32="products"
                ),
            }
        )
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = nn.LayerNorm(args.dim, args.norm_eps, bias=args.norm_bias)
        self.head_dense = nn.Linear(args.dim, args.dim, bias=args.classifier_bias)
        self.head_act = get_activation(args.classifier_activation)
        self.head_norm = nn.LayerNorm(args.dim, args.norm_eps, bias=args.norm_bias)
        self.pooling = args.classifier_pooling
        self.output = None
        self.score = nn.Linear(args.dim, args.num_labels, bias=True)

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        h = self.tok_embeddings(tokens)
        return self.embedding_norm(h)

    def run_layers(self, h: Tensor, packing: Packing) -> Tensor:
        ropes = {kind: rope(packing, h.dtype) for kind, rope in self.ropes.items()}
        for layer_id, layer in self.layers.items():
            h = layer(h, ropes[self.model_args.layer_types[int(layer_id)]], packing)
        return h

    def scores(self, h: Tensor) -> Tensor:
        return self.score(self.head_norm(self.head_act(self.head_dense(h))))
