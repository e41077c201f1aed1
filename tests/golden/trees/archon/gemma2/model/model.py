"""Gemma2: a decoder with grouped queries and a gated feed-forward.

Source: transformers 5.23.0, Gemma2ForCausalLM.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.gemma2.model.args import Gemma2ModelArgs
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary


class Attention(nn.Module):
    """Attends with grouped queries."""

    def __init__(self, args: Gemma2ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=False)
        self.core = AttentionCore(
            layer_id,
            args.attn_type,
            scale=args.query_pre_attn_scalar**-0.5,
            window=args.windows[layer_id],
            softcap=args.attn_logit_softcapping,
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = split_heads(self.wq(x), self.head_dim)
        k = split_heads(self.wk(x), self.head_dim)
        v = split_heads(self.wv(x), self.head_dim)
        q = apply_rotary(q, rope)
        k = apply_rotary(k, rope)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention, then the feed-forward, each normed before and after."""

    def __init__(self, args: Gemma2ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0)
        self.attention = Attention(args, layer_id)
        self.attention_post_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0)
        self.feed_forward = GatedFeedForward(args.dim, args.hidden_dim, args.hidden_activation)
        self.ffn_post_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0)

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        h = x + self.attention_post_norm(self.attention(self.attention_norm(x), rope, packing))
        return h + self.ffn_post_norm(self.feed_forward(self.ffn_norm(h)))


class Gemma2Model(BaseDecoder):
    """Gemma2 for causal language modelling, or as a critic."""

    def __init__(self, args: Gemma2ModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.rope = RotaryEmbedding(args.rope)
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = RMSNorm(args.dim, args.norm_eps, offset=1.0)
        if args.is_critic:
            self.output = None
            self.score = nn.Linear(args.dim, args.num_labels, bias=False)
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
            self.score = None
        self.tie_weights()

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        h = self.tok_embeddings(tokens)
        return h * self.model_args.embedding_multiplier

    def logits(self, h: Tensor) -> Tensor:
        cap, logits = self.model_args.final_logit_softcapping, self.output(h)
        return logits if cap is None else cap * torch.tanh(logits / cap)
