"""The one place through which every attention layer goes.

Shape letters: B batch, H heads, K key-value heads, T tokens of the packed row, L padded length, D
head size, Dv value head size.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.attention.features import AttentionFeatures
from areal.experimental.models.archon.attention.flex import flex_packed_attention
from areal.experimental.models.archon.attention.heads import pad_heads
from areal.experimental.models.archon.attention.masked import eager_attention, masked_attention
from areal.experimental.models.archon.attention.varlen import varlen_attention
from areal.experimental.models.archon.layers.packing import AttentionPlan, Packing
from areal.experimental.models.archon.layers.positions import KeyBias
from areal.experimental.models.archon.ulysses import (
    gather_heads_scatter_seq,
    own_heads,
    share_heads,
)

# "varlen" is the one to use. "flex" takes flex attention for everything where there is CUDA. "sdpa"
# is the reference and "eager" rounds as transformers' eager path: the cost of both grows with the
# square of the packed row. So a name that is not here is refused: falling back to "sdpa" would hide
# a misspelling.
ATTENTION_BACKENDS = {
    "eager": eager_attention,
    "flex": flex_packed_attention,
    "sdpa": masked_attention,
    "varlen": varlen_attention,
}


class AttentionCore(nn.Module):
    """Attends inside each sequence of a packed batch; has no parameters.

    Args:
        layer_id: Number of the layer, for plans that keep its keys and values.
        attn_type: Backend, a key of ``ATTENTION_BACKENDS``.
        scale: Factor on the scores.
        window: Number of keys that a query sees, itself included, on each side where it is not
            causal; None for all.
        chunk: Tokens of a block outside of which nothing is seen; None for no blocks.
        softcap: Bound that ``tanh`` puts on the scores; None for none.
        causal: Whether a query sees only keys up to itself.

    Raises:
        ConfigError: ``attn_type`` is unknown, or a size is none.
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
        for name, size in (("window", window), ("chunk", chunk), ("softcap", softcap)):
            if size is not None and size <= 0:
                raise ConfigError(f"the {name} of attention is {size}; null means none")
        self.layer_id = layer_id
        self.attn_type = attn_type
        self.scale = scale
        self.window = window
        self.chunk = chunk
        self.softcap = softcap
        self.causal = causal
        self._cp_group: dist.ProcessGroup | None = None

    def set_cp_group(self, group: Any) -> None:
        """Share the row of tokens with the processes of ``group`` (Ulysses)."""
        self._cp_group = group

    # A compiled block calls it as it is: it reads the lengths of the call, for which each new batch
    # would be compiled again, and its kernels are compiled already.
    @torch.compiler.disable
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        packing: Packing,
        *,
        sinks: Tensor | None = None,
        alibi_slopes: Tensor | KeyBias | None = None,
    ) -> Tensor:
        """Return attention [1, H, T, Dv] of q [1, H, T, D], k [1, K, T, D], v [1, K, T, Dv].

        Args:
            sinks: [H] logits of one more key per head, whose value is zero.
            alibi_slopes: [H] what each head takes off a score for each token of distance, or what
                ``AlibiSlopes`` returns.
        """
        if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
            raise ConfigError(
                f"{q.shape[1]} query heads do not share {k.shape[1]} key-value heads evenly"
            )
        bias = KeyBias(alibi_slopes) if isinstance(alibi_slopes, Tensor) else alibi_slopes
        group = self._cp_group
        if group is not None:
            q, k, v = share_heads(q, k, v, group)
            sinks = own_heads(sinks, group)
            if bias is not None:
                bias = bias.heads(group.rank() * q.shape[1], q.shape[1])
        features = AttentionFeatures(
            window=self.window,
            chunk=self.chunk,
            softcap=self.softcap,
            causal=self.causal,
            sinks=sinks,
            key_bias=bias,
        )
        if packing.plan is not None:
            return self._planned(q, k, v, packing.plan, features)
        whole = packing.whole(q.shape[2])
        backend = ATTENTION_BACKENDS[self.attn_type]
        out = backend(q, k, v, scale=self.scale, packing=whole, features=features)
        return out if group is None else gather_heads_scatter_seq(out, 1, 2, group)

    def _planned(
        self, q: Tensor, k: Tensor, v: Tensor, plan: AttentionPlan, features: AttentionFeatures
    ) -> Tensor:
        features.require_plannable(self.layer_id)
        value_dim = v.shape[-1]
        # Plans keep keys and values in slots of one size.
        q, k, v = pad_heads(1, q, k, v)
        scores = (self.scale, features.window, features.softcap, features.sinks)
        out_THD = plan.attend(self.layer_id, q[0], k[0], v[0], *scores)
        return out_THD[..., :value_dim].transpose(0, 1).unsqueeze(0)
