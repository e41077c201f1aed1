"""The way of a packed row through an encoder, which gives each sequence one score."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseArchonModel, keep_tokens
from areal.experimental.models.archon.layers.packing import (
    AttentionPlan,
    Packing,
    refuse_tree_attention,
)


class BaseEncoder(BaseArchonModel):
    """Embeds tokens, runs the blocks, pools the states of each sequence, and scores it.

    Tokens see those behind them, so a score is of a whole sequence, and every token of a sequence
    carries it: whoever reads the score of the last token, as the trainer of reward models does,
    reads the sequence's. A subclass makes the modules below, and overrides the step in which its
    model differs. What another stage of a pipeline holds is None.

    Attributes:
        tok_embeddings: Tokens to hidden states.
        rope: Tables of rotary positions; a subclass without them overrides ``run_layers``.
        layers: The blocks, by number.
        norm: Of the last hidden states.
        pooling: What is taken of a sequence: "cls", its first token; "mean", of all; "late" for
            the mean of the scores of all.
        output: Always None: an encoder has no logits.
        score: Pooled states to scores.
    """

    is_causal: ClassVar[bool] = False

    model_args: Any
    tok_embeddings: nn.Module | None
    rope: nn.Module
    layers: nn.ModuleDict
    norm: nn.Module
    pooling: str
    output: None
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
    ) -> Tensor:
        refuse_tree_attention(tree_attn_meta)
        packing = Packing.of(positions, cu_seqlens, max_seqlen, attention_plan)
        h = tokens if self.tok_embeddings is None else self.embed(tokens, packing)
        h = self.run_layers(h, packing)
        if self.score is None:
            return h
        h = self.norm(h)
        if self.pooling == "late":
            scores = pool(self.scores(h), packing, "mean")
        else:
            scores = self.scores(pool(h, packing, self.pooling))
        # [B, labels] to [1, T, labels]: each token gets the score of its sequence.
        of_tokens = scores.index_select(0, packing.sequence_ids).unsqueeze(0)
        return keep_tokens(of_tokens, logits_to_keep)

    def embed(self, tokens: Tensor, packing: Packing) -> Tensor:
        """Return the hidden states [1, T, dim] that enter the first block."""
        return self.tok_embeddings(tokens)

    def run_layers(self, h: Tensor, packing: Packing) -> Tensor:
        """Return the hidden states [1, T, dim] after the last block of this stage."""
        rope = self.rope(packing, h.dtype)
        for layer in self.layers.values():
            h = layer(h, rope, packing)
        return h

    def scores(self, h: Tensor) -> Tensor:
        """Return the scores [..., labels] of states [..., dim]."""
        return self.score(h)


def pool(h: Tensor, packing: Packing, pooling: str) -> Tensor:
    """Return one state [B, dim] for each sequence of a packed row [1, T, dim].

    Args:
        h: Of all tokens.
        packing: Where sequences begin.
        pooling: "cls" for the state of the first token, "mean" for that of all.

    Raises:
        ConfigError: The name is another one.
    """
    starts = packing.cu_seqlens[:-1].long()
    if pooling == "cls":
        # An empty sequence at the end begins behind the last token.
        return h[0].index_select(0, starts.clamp(max=h.shape[1] - 1))
    if pooling != "mean":
        raise ConfigError(f"pooling {pooling!r} is neither 'cls' nor 'mean'")
    sums = torch.zeros(len(starts), h.shape[-1], dtype=h.dtype, device=h.device)
    sums = sums.index_add(0, packing.sequence_ids, h[0])
    return sums / packing.cu_seqlens.diff().clamp(min=1)[:, None]
