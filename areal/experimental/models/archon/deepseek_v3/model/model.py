"""DeepseekV3: a decoder with latent queries and a mixture of experts.

Source: transformers 5.23.0, DeepseekV3ForCausalLM.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.deepseek_v3.model.args import DeepseekV3ModelArgs
from areal.experimental.models.archon.layers.feed_forward import GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary
from areal.experimental.models.archon.moe import MoE


class Attention(nn.Module):
    """Attends with keys and values that are expanded from a latent state."""

    def __init__(self, args: DeepseekV3ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.qk_nope_head_dim = args.qk_nope_head_dim
        self.qk_rope_head_dim = args.qk_rope_head_dim
        self.v_head_dim = args.v_head_dim
        self.kv_lora_rank = args.kv_lora_rank
        if args.q_lora_rank is None:
            self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=False)
        else:
            self.wq_a = nn.Linear(args.dim, args.q_lora_rank, bias=args.attention_bias)
            self.q_norm = RMSNorm(args.q_lora_rank, 1e-06)
            self.wq_b = nn.Linear(args.q_lora_rank, args.n_heads * args.head_dim, bias=False)
        self.q_lora_rank = args.q_lora_rank
        self.wkv_a = nn.Linear(
            args.dim, args.kv_lora_rank + args.qk_rope_head_dim, bias=args.attention_bias
        )
        self.kv_norm = RMSNorm(args.kv_lora_rank, 1e-06)
        self.wkv_b = nn.Linear(
            args.kv_lora_rank, args.n_heads * (args.qk_nope_head_dim + args.v_head_dim), bias=False
        )
        self.wo = nn.Linear(args.n_heads * args.v_head_dim, args.dim, bias=args.attention_bias)
        self.core = AttentionCore(
            layer_id, args.attn_type, scale=args.head_dim**-0.5 * args.rope.score_multiplier
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = self.wq(x) if self.q_lora_rank is None else self.wq_b(self.q_norm(self.wq_a(x)))
        q = split_heads(q, self.head_dim)
        q_nope, q_rope = q.split([self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1)
        latent, k_rope = self.wkv_a(x).split([self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)
        kv = split_heads(self.wkv_b(self.kv_norm(latent)), self.qk_nope_head_dim + self.v_head_dim)
        k_nope, v = kv.split([self.qk_nope_head_dim, self.v_head_dim], dim=-1)
        k_rope = apply_rotary(k_rope.unsqueeze(1), rope).expand(-1, k_nope.shape[1], -1, -1)
        q = torch.cat([q_nope, apply_rotary(q_rope, rope)], dim=-1)
        k = torch.cat([k_nope, k_rope], dim=-1)
        return self.wo(merge_heads(self.core(q, k, v, packing)))


class TransformerBlock(nn.Module):
    """Adds attention, then a mixture of experts or a feed-forward, each on the normed stream."""

    def __init__(self, args: DeepseekV3ModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.attention = Attention(args, layer_id)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)
        self.feed_forward = (
            GatedFeedForward(args.dim, args.hidden_dim, args.hidden_act)
            if args.has_feed_forward[layer_id]
            else None
        )
        self.moe = (
            MoE(args.moe_args, args.dim, args.moe_inter_dim) if args.has_moe[layer_id] else None
        )

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        ffn = self.moe if self.feed_forward is None else self.feed_forward
        h = x + self.attention(self.attention_norm(x), rope, packing)
        return h + ffn(self.ffn_norm(h))


class DeepseekV3Model(BaseDecoder):
    """DeepseekV3 for causal language modelling, or as a critic."""

    def __init__(self, args: DeepseekV3ModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=args.pad_token_id)
        self.rope = RotaryEmbedding(
            args.rope, pairing="interleaved" if args.rope_interleave else "half"
        )
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
