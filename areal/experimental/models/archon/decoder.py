"""The way of a packed row through a decoder, which models of one's own differ little in."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from areal.experimental.models.archon.base import BaseArchonModel, keep_tokens
from areal.experimental.models.archon.layers.packing import (
    AttentionPlan,
    Packing,
    refuse_tree_attention,
)


class BaseDecoder(BaseArchonModel):
    """Embeds tokens, runs the blocks, norms, and gives logits or a critic's scores.

    A subclass makes the modules below, and overrides the step in which its model differs. What
    another stage of a pipeline holds is None.

    Attributes:
        tok_embeddings: Tokens to hidden states.
        rope: Tables of rotary positions; a subclass without them overrides ``run_layers``.
        layers: The blocks, by number.
        norm: Of the last hidden states.
        output: Hidden states to logits; a critic has ``score`` in its place.
    """

    model_args: Any
    tok_embeddings: nn.Module | None
    rope: nn.Module
    layers: nn.ModuleDict
    norm: nn.Module
    output: nn.Module | None
    score: nn.Module | None

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        tree_attn_meta: Any = None,
        *,
        logits_to_keep: Tensor | None = None,
        attention_plan: AttentionPlan | None = None,
        without_head: bool = False,
    ) -> Tensor:
        refuse_tree_attention(tree_attn_meta)
        packing = Packing.of(positions, cu_seqlens, max_seqlen, attention_plan)
        h = tokens if self.tok_embeddings is None else self.embed(tokens, packing)
        h = self.run_layers(h, packing)
        is_critic = self.model_args.is_critic
        # The norm does not tell the last stage: one without parameters is on every stage.
        if (self.score if is_critic else self.output) is None:
            return h
        h = keep_tokens(self.norm(h), logits_to_keep)
        if without_head:
            return h
        return self.score(h) if is_critic else self.logits(h)

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        """Return the hidden states [1, T, dim] that enter the first block."""
        return self.tok_embeddings(tokens)

    def run_layers(self, h: Tensor, packing: Packing) -> Tensor:
        """Return the hidden states [1, T, dim] after the last block of this stage."""
        rope = self.rope(packing, h.dtype)
        for layer in self.layers.values():
            h = layer(h, rope, packing)
        return h

    def logits(self, h: Tensor) -> Tensor:
        """Return the logits of normed hidden states, of which only some may be left."""
        return self.output(h)
