"""Gemma3: a decoder with grouped queries and a gated feed-forward.

Source: transformers 5.23.0, Gemma3ForCausalLM.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.gemma3_text.model.args import Gemma3ModelArgs
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary


class Attention(nn.Module):
    """Attends with grouped queries and norms each head of queries and keys before rotating."""

    def __init__(self, args: Gemma3ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=args.attention_bias)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=args.attention_bias)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=args.attention_bias)
        self.q_norm = RMSNorm(args.head_dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        self.k_norm = RMSNorm(args.head_dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        self.core = AttentionCore(
            layer_id, args.attn_type, scale=args.attention_scale, window=args.windows[layer_id]
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = split_heads(self.wq(x), self.head_dim)
        k = split_heads(self.wk(x), self.head_dim)
        v = split_heads(self.wv(x), self.head_dim)
        q = apply_rotary(self.q_norm(q), rope)
        k = apply_rotary(self.k_norm(k), rope)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention, then the feed-forward, each normed before and after."""

    def __init__(self, args: Gemma3ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        self.attention = Attention(args, layer_id)
        self.attention_post_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        self.feed_forward = GatedFeedForward(args.dim, args.hidden_dim, args.hidden_activation)
        self.ffn_post_norm = RMSNorm(args.dim, args.norm_eps, offset=1.0, weight_in_fp32=True)

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        h = x + self.attention_post_norm(self.attention(self.attention_norm(x), rope, packing))
        return h + self.ffn_post_norm(self.feed_forward(self.ffn_norm(h)))


class Gemma3Model(BaseDecoder):
    """Gemma3 for causal language modelling, or as a critic."""

    def __init__(self, args: Gemma3ModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=args.pad_token_id)
        self.ropes = nn.ModuleDict(
            {
                "sliding_attention": RotaryEmbedding(args.rope_sliding_attention),
                "full_attention": RotaryEmbedding(args.rope_full_attention),
            }
        )
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = RMSNorm(args.dim, args.norm_eps, offset=1.0, weight_in_fp32=True)
        if args.is_critic:
            self.output = None
            self.score = nn.Linear(args.dim, args.num_labels, bias=False)
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
            self.score = None
        self.tie_weights()

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        h = self.tok_embeddings(tokens)
        return h * self.model_args.dim**0.5

    def run_layers(self, h: Tensor, packing: Packing) -> Tensor:
        ropes = {kind: rope(packing, h.dtype) for kind, rope in self.ropes.items()}
        for layer_id, layer in self.layers.items():
            h = layer(h, ropes[self.model_args.layer_types[int(layer_id)]], packing)
        return h

    def logits(self, h: Tensor) -> Tensor:
        cap, logits = self.model_args.final_logit_softcapping, self.output(h)
        return logits if cap is None else cap * torch.tanh(logits / cap)
