"""The one place through which every attention layer goes.

Shape letters: B batch, H heads, K key-value heads, T tokens of the packed row, L padded length, D
head size, Dv value head size.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.attention.masked import masked_attention
from areal.experimental.models.archon.attention.varlen import varlen_attention
from areal.experimental.models.archon.packing import Packing

ATTENTION_BACKENDS = {
    "sdpa": masked_attention,
    "varlen": varlen_attention,
}


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """Returns a projection [1, T, H * D] as heads [1, H, T, D]; H follows from its width."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Returns heads [1, H, T, D] as [1, T, H * D]."""
    return x.transpose(1, 2).flatten(2)


class AttentionCore(nn.Module):
    """Attends inside each sequence of a packed batch; has no parameters.

    Args:
        layer_id: Number of the layer, for plans that keep its keys and values.
        attn_type: Backend, a key of ``ATTENTION_BACKENDS``.
        scale: Factor on the scores.
        window: Number of keys that a query sees, itself included; None for all before it.
        chunk: Tokens of a block outside of which nothing is seen; None for no blocks.
        softcap: Bound that ``tanh`` puts on the scores; None for none.
        causal: Whether a query sees only keys up to itself.

    Raises:
        ConfigError: ``attn_type`` is unknown.
    """

    def __init__(
        self,
        layer_id: int,
        attn_type: str,
        *,
        scale: float,
        window: int | None = None,
        chunk: int | None = None,
        softcap: float | None = None,
        causal: bool = True,
    ) -> None:
        super().__init__()
        if attn_type not in ATTENTION_BACKENDS:
            known = ", ".join(sorted(ATTENTION_BACKENDS))
            raise ConfigError(f"unknown attn_type {attn_type!r}; known: {known}")
        self.layer_id = layer_id
        self.attn_type = attn_type
        self.scale = scale
        self.window = window
        self.chunk = chunk
        self.softcap = softcap
        self.causal = causal
        self._cp_group: dist.ProcessGroup | None = None

    def set_cp_group(self, group: Any) -> None:
        """Shares the sequence with the ranks of ``group`` (Ulysses)."""
        self._cp_group = group

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        packing: Packing,
        *,
        sinks: Tensor | None = None,
        alibi_slopes: Tensor | None = None,
    ) -> Tensor:
        """Returns attention [1, H, T, Dv] of q [1, H, T, D], k [1, K, T, D], v [1, K, T, Dv].

        Args:
            sinks: [H] logits of one more key per head, whose value is zero.
            alibi_slopes: [H] factors on the distance between query and key.
        """
        features = AttentionFeatures(
            window=self.window,
            chunk=self.chunk,
            softcap=self.softcap,
            causal=self.causal,
            sinks=sinks,
            alibi_slopes=alibi_slopes,
        )
        if packing.plan is not None:
            features.require_plannable(self.layer_id)
            out_THD = packing.plan.attend(self.layer_id, q[0], k[0], v[0], self.scale, self.window)
            return out_THD.transpose(0, 1).unsqueeze(0)
        backend = ATTENTION_BACKENDS[self.attn_type]
        return backend(q, k, v, scale=self.scale, packing=packing, features=features)
