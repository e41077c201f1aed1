"""EveryThing: a decoder with grouped queries and a feed-forward.

Not reproduced, so this model is not what transformers computes yet:
    model.layers.0.mixer: its state is not understood

Source: transformers 5.23.0, Qwen3ForCausalLM.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.decoder import BaseDecoder
from areal.experimental.models.archon.every_thing.model.args import EveryThingModelArgs
from areal.experimental.models.archon.layers.feed_forward import FeedForward, get_activation
from areal.experimental.models.archon.layers.norms import LayerNorm, RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.positions import LearnedPositions, log_temperature
from areal.experimental.models.archon.layers.rope import RopeTable, RotaryEmbedding, apply_rotary


class Attention(nn.Module):
    """Attends with grouped queries.

    Norms each head of queries and keys before rotating, gates the output and lets heads attend to
    nothing.
    """

    def __init__(self, args: EveryThingModelArgs, layer_id: int, core_id: int) -> None:
        super().__init__()
        self.head_dim = args.head_dim
        self.v_head_dim = args.v_head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=True)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.v_head_dim, bias=False)
        self.wo = nn.Linear(
            args.n_heads * args.v_head_dim, args.dim, bias=layer_id == args.n_layers - 1
        )
        self.q_norm = (
            LayerNorm(args.head_dim, args.norm_eps, has_bias=False, n_heads=args.n_heads)
            if args.use_qk_norm
            else nn.Identity()
        )
        self.k_norm = (
            LayerNorm(args.head_dim, args.norm_eps, has_bias=False, n_heads=args.n_kv_heads)
            if args.use_qk_norm
            else nn.Identity()
        )
        self.v_norm = RMSNorm(args.v_head_dim, args.norm_eps, has_weight=False)
        self.clip_qkv = args.clip_qkv
        self.has_rope = args.has_rope[layer_id]
        self.has_temperature = not args.has_rope[layer_id]
        self.attn_scale = args.attn_scale
        self.value_scale = args.value_scale
        self.sinks = nn.Parameter(torch.zeros(args.n_heads)) if args.use_sinks else None
        self.core = AttentionCore(
            core_id, args.attn_type, scale=args.head_dim**-0.5, window=args.windows[layer_id]
        )
        self.out_norm = RMSNorm(args.n_heads * args.v_head_dim, args.norm_eps)
        self.gate = nn.Linear(args.dim, args.n_heads, bias=True) if args.use_gate else None

    def reset_parameters(self) -> None:
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        q = self.wq(x)
        k = self.wk(x)
        v = self.wv(x)
        if self.clip_qkv is not None:
            q = q.clamp(-self.clip_qkv, self.clip_qkv)
            k = k.clamp(-self.clip_qkv, self.clip_qkv)
            v = v.clamp(-self.clip_qkv, self.clip_qkv)
        q = split_heads(q, self.head_dim)
        k = split_heads(k, self.head_dim)
        v = split_heads(v, self.v_head_dim)
        q = self.q_norm(q)
        k = self.k_norm(k)
        v = self.v_norm(v)
        if self.has_rope:
            q = apply_rotary(q, rope)
            k = apply_rotary(k, rope)
        if self.has_temperature:
            temperature = log_temperature(
                packing.positions, scale=self.attn_scale, floor=4.0, offset=1
            )
            q = (q * temperature).to(q.dtype)
        v = v * self.value_scale
        out = self.core(q, k, v, packing, sinks=self.sinks)
        if self.gate is not None:
            out = out * F.softplus(self.gate(x)).transpose(1, 2).unsqueeze(-1)
        return self.wo(self.out_norm(merge_heads(out)))


class TransformerBlock(nn.Module):
    """Adds attention and the feed-forward, in an order that the arguments choose."""

    def __init__(self, args: EveryThingModelArgs, layer_id: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(args.dim, args.norm_eps) if layer_id > 0 else nn.Identity()
        self.attention = Attention(args, layer_id, 2 * layer_id)
        self.attention_2 = Attention(args, layer_id, 2 * layer_id + 1)
        self.ffn_norm = nn.LayerNorm(args.dim, args.norm_eps, elementwise_affine=False)
        self.feed_forward = FeedForward(
            args.dim,
            args.hidden_dim,
            args.hidden_act,
            bias=True,
            down_bias=False,
            inner_norm=RMSNorm(args.hidden_dim, args.norm_eps),
        )
        self.ffn_post_norm = LayerNorm(args.dim, args.norm_eps, offset=1.0)
        self.use_swapped = args.use_swapped
        self.residual_multiplier = args.residual_multiplier
        self.residual_scale = args.scales[layer_id]

    def forward(self, x: Tensor, rope: RopeTable, packing: Packing) -> Tensor:
        if self.use_swapped:
            return self.residual_multiplier * (self.feed_forward(self.ffn_norm(x)) + x)
        n = self.attention_norm(x)
        h = (
            x
            + self.residual_multiplier * self.attention(n, rope, packing)
            + 0.5 * self.attention_2(n, rope, packing)
        )
        return self.ffn_post_norm(h + self.residual_scale * self.feed_forward(self.ffn_norm(h)))


class EveryThingModel(BaseDecoder):
    """EveryThing for causal language modelling, or as a critic."""

    def __init__(self, args: EveryThingModelArgs) -> None:
        super().__init__()
        self.model_args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=0)
        self.pos_embeddings = LearnedPositions(args.max_seq_len, args.dim, offset=2)
        self.embedding_norm = nn.LayerNorm(args.dim, args.norm_eps)
        self.ropes = nn.ModuleDict(
            {
                "near": RotaryEmbedding(args.rope_near, pairing="interleaved"),
                "far": RotaryEmbedding(args.rope_far),
            }
        )
        self.layers = nn.ModuleDict(
            {str(layer_id): TransformerBlock(args, layer_id) for layer_id in range(args.n_layers)}
        )
        self.norm = nn.LayerNorm(args.dim, args.norm_eps, bias=False)
        self.head_dense = nn.Linear(args.dim, args.dim, bias=False)
        self.head_act = get_activation("gelu")
        self.head_norm = nn.LayerNorm(args.dim, args.norm_eps)
        if args.is_critic:
            self.output = None
            self.score = nn.Linear(args.dim, args.num_labels, bias=False)
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=True)
            self.score = None
        self.tie_weights()

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        h = self.tok_embeddings(tokens)
        h = h * self.model_args.dim**0.5
        h = h + self.pos_embeddings(packing)
        return self.embedding_norm(h)

    def run_layers(self, h: Tensor, packing: Packing) -> Tensor:
        ropes = {kind: rope(packing, h.dtype) for kind, rope in self.ropes.items()}
        for layer_id, layer in self.layers.items():
            h = layer(h, ropes[self.model_args.layer_types[int(layer_id)]], packing)
        return h

    def logits(self, h: Tensor) -> Tensor:
        h = self.head_norm(self.head_act(self.head_dense(h)))
        return 30.0 * torch.tanh(self.output(h) * self.model_args.logits_scaling / 30.0)
