"""A model whose features are chosen one by one, so that each way to be split is met.

Shape letters: T tokens of the packed row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from areal.experimental.models.archon.attention import AttentionCore, merge_heads, split_heads
from areal.experimental.models.archon.base import BaseArchonModel, BaseModelArgs, keep_tokens
from areal.experimental.models.archon.layers.feed_forward import FeedForward, GatedFeedForward
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.positions import AlibiSlopes, LearnedPositions
from areal.experimental.models.archon.layers.rope import RopeArgs, RotaryEmbedding, apply_rotary
from areal.experimental.models.archon.model_spec import ModelSpec
from areal.experimental.models.archon.moe import MoE, MoEArgs
from areal.experimental.models.archon.parallel import (
    Colwise,
    PerHead,
    ProjectionNorm,
    Region,
    Rowwise,
)
from areal.experimental.models.archon.parallel.decoder import parallelize_decoder
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


@dataclass
class ZooArgs(BaseModelArgs):
    """Sizes, and the names of the features that the model has."""

    features: tuple[str, ...] = ()
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 4
    head_dim: int = 8
    hidden_dim: int = 48
    vocab_size: int = 97
    moe_inter_dim: int = 16
    moe_args: MoEArgs | None = None
    rope: RopeArgs = field(default_factory=lambda: RopeArgs(dim=8))
    windows: tuple[int | None, ...] = (None, 6)
    is_critic: bool = False
    num_labels: int = 1

    @classmethod
    def from_hf_config(cls, hf_config: Any, is_critic: bool = False, **kwargs: Any) -> ZooArgs:
        """Takes a dict of the fields; "moe" is one of ``MoEArgs``'s."""
        fields = dict(hf_config)
        moe = fields.pop("moe", None)
        rope = fields.pop("rope", None)
        args = cls(**fields, is_critic=is_critic)
        args.moe_args = None if moe is None else MoEArgs(**moe)
        args.rope = args.rope if rope is None else RopeArgs(**rope)
        return args


class Attention(nn.Module):
    """Grouped queries with any of: norms, sinks, ALiBi, gate, a low-rank query."""

    def __init__(self, args: ZooArgs, layer_id: int) -> None:
        super().__init__()
        has = args.features.__contains__
        self.head_dim, wide = args.head_dim, args.n_heads * args.head_dim
        narrow, bias = args.n_kv_heads * args.head_dim, has("bias")
        self.wq_a = nn.Linear(args.dim, 12, bias=bias) if has("low_rank") else nn.Identity()
        self.q_a_norm = RMSNorm(12) if has("low_rank") else nn.Identity()
        self.wq = nn.Linear(12 if has("low_rank") else args.dim, wide, bias=bias)
        self.wk = nn.Linear(args.dim, narrow, bias=bias)
        self.wv = nn.Linear(args.dim, narrow, bias=bias)
        self.wo = nn.Linear(wide, args.dim, bias=bias)
        self.q_norm, self.k_norm = RMSNorm(wide), RMSNorm(narrow)
        self.over_projection = has("projection_norm")
        if has("head_norm"):
            self.q_norm = RMSNorm(args.head_dim, n_heads=args.n_heads)
            self.k_norm = RMSNorm(args.head_dim, n_heads=args.n_kv_heads)
        elif not self.over_projection:
            self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        self.sinks = nn.Parameter(torch.zeros(args.n_heads)) if has("sinks") else None
        self.alibi = AlibiSlopes(args.n_heads) if has("alibi") else None
        self.gate = nn.Linear(args.dim, args.n_heads) if has("gate") else None
        self.out_norm = nn.LayerNorm(wide) if has("out_norm") else nn.Identity()
        self.core = AttentionCore(
            layer_id,
            args.attn_type,
            scale=args.head_dim**-0.5,
            window=args.windows[layer_id % 2],
            softcap=20.0 if has("softcap") else None,
        )

    def forward(self, x: Tensor, rope: Any, packing: Packing) -> Tensor:
        q, k, v = self.wq(self.q_a_norm(self.wq_a(x))), self.wk(x), self.wv(x)
        if self.over_projection:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (split_heads(a, self.head_dim) for a in (q, k, v))
        if not self.over_projection:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.alibi is None:
            q, k = apply_rotary(q, rope), apply_rotary(k, rope)
        slopes = None if self.alibi is None else self.alibi(q)
        out = self.core(q, k, v, packing, sinks=self.sinks, alibi_slopes=slopes)
        if self.gate is not None:
            out = out * self.gate(x).sigmoid().transpose(1, 2).unsqueeze(-1)
        return self.wo(self.out_norm(merge_heads(out)))


class Block(nn.Module):
    """Adds attention and a feed-forward or experts, normed before, and after where asked."""

    def __init__(self, args: ZooArgs, layer_id: int) -> None:
        super().__init__()
        has = args.features.__contains__
        self.attention_norm, self.ffn_norm = nn.LayerNorm(args.dim), RMSNorm(args.dim, offset=1.0)
        self.attention = Attention(args, layer_id)
        post = has("post_norm")
        self.attention_post_norm = RMSNorm(args.dim) if post else nn.Identity()
        self.ffn_post_norm = RMSNorm(args.dim) if post else nn.Identity()
        self.feed_forward = self.moe = None
        if args.moe_args is not None and layer_id % 2:
            self.moe = MoE(args.moe_args, args.dim, args.moe_inter_dim)
        else:
            kind = FeedForward if has("plain_mlp") else GatedFeedForward
            inner = RMSNorm(args.hidden_dim) if has("inner_norm") else None
            self.feed_forward = kind(
                args.dim, args.hidden_dim, "gelu", bias=has("bias"), inner_norm=inner
            )

    def forward(self, x: Tensor, rope: Any, packing: Packing) -> Tensor:
        h = x + self.attention_post_norm(self.attention(self.attention_norm(x), rope, packing))
        branch = self.feed_forward if self.moe is None else self.moe
        return h + self.ffn_post_norm(branch(self.ffn_norm(h)))


class ZooModel(BaseArchonModel):
    """Has what a committed model may lack."""

    def __init__(self, args: ZooArgs) -> None:
        super().__init__()
        self.model_args = args
        has = args.features.__contains__
        padding = 5 if has("padding") else None
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim, padding_idx=padding)
        self.pos_embeddings = LearnedPositions(40, args.dim, 2) if has("positions") else None
        self.embedding_norm = nn.LayerNorm(args.dim) if has("embedding_norm") else nn.Identity()
        self.rope = RotaryEmbedding(args.rope)
        self.layers = nn.ModuleDict({str(i): Block(args, i) for i in range(args.n_layers)})
        self.norm = nn.Identity() if has("no_norm") else RMSNorm(args.dim)
        if args.is_critic:
            self.score = nn.Linear(args.dim, args.num_labels, bias=has("bias"))
        else:
            self.output = nn.Linear(args.dim, args.vocab_size, bias=has("bias"))
        if has("tied"):
            self.output.weight = self.tok_embeddings.weight

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        tree_attn_meta: Any = None,
        *,
        logits_to_keep: Tensor | None = None,
    ) -> Tensor:
        packing = Packing.of(positions, cu_seqlens, max_seqlen)
        h = tokens
        if self.tok_embeddings is not None:
            h = self.tok_embeddings(tokens)
            if self.pos_embeddings is not None:
                h = h + self.pos_embeddings(packing)
            h = self.embedding_norm(h)
        rope = self.rope(packing, h.dtype)
        for layer in self.layers.values():
            h = layer(h, rope, packing)
        head = self.score if self.model_args.is_critic else self.output
        return h if head is None else head(keep_tokens(self.norm(h), logits_to_keep))


_TP_PLAN = {
    "attention": Region(per_head=("sinks",)),
    "attention.wq": Colwise(),
    "attention.wk": Colwise(),
    "attention.wv": Colwise(),
    "attention.gate": Colwise(),
    "attention.out_norm": ProjectionNorm(),
    "attention.wo": Rowwise(),
    "feed_forward": Region(),
    "feed_forward.w1": Colwise(),
    "feed_forward.w3": Colwise(),
    "feed_forward.inner_norm": ProjectionNorm(),
    "feed_forward.w2": Rowwise(),
}


def parallelize_zoo(
    model: ZooModel, parallel_dims: ArchonParallelDims, **options: Any
) -> nn.Module:
    """Do what a model's own function does, with a plan that follows the features."""
    q_norm = ProjectionNorm if "projection_norm" in model.model_args.features else PerHead
    plan = dict(_TP_PLAN)
    if {"projection_norm", "head_norm"} & set(model.model_args.features):
        plan |= {"attention.q_norm": q_norm(), "attention.k_norm": q_norm()}
    return parallelize_decoder(model, parallel_dims, plan, **options)


ZOO_SPEC = ModelSpec(
    name="zoo",
    model_class=ZooModel,
    model_args_class=ZooArgs,
    state_dict_adapter_class=object,
    parallelize_fn=parallelize_zoo,
    supported_model_types=frozenset({"zoo"}),
)
