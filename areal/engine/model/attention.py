"""One attention function for training and generation, steered by a plan that the caller passes.

A Hugging Face model whose attention implementation is ``IMPLEMENTATION`` calls
:func:`planned_attention` in each layer. What it does there is decided by the ``attention_plan``
keyword of the model's forward: :class:`PackedPlan` for packed training batches, the plans of
``areal.engine.local.slots`` for prefill and decode over the embedded engine's key-value slots. So
the very module that is trained also generates, and its weights never move.

Shape letters: T tokens of a packed batch, B sequences, L padded length, H heads, K key-value heads,
D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from areal.api.errors import ConfigError
from areal.experimental.models.archon.attention.softcap import softcap_attention
from areal.experimental.models.archon.ulysses import (
    gather_heads_scatter_seq,
    own_heads,
    share_heads,
)
from areal.utils.packed_rows import PackedRows, longest_shared_length

IMPLEMENTATION = "areal_planned"


class AttentionPlan(Protocol):
    """How the tokens of one forward call attend to each other and to what is cached."""

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D].

        Args:
            layer: Number of the layer, from 0.
            q_HTD: Queries with rotary embedding applied; ``k_KTD`` and ``v_KTD`` of H / K heads.
            scale: Factor on the scores.
            window: Keys that a query sees, itself included; None for all before it.
            softcap: Scores become ``softcap * tanh(score / softcap)``; None leaves them.
            sinks: [H] logits of one more key, whose value is zero; None for no such key.
        """
        ...


def planned_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    attention_plan: AttentionPlan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend by the plan of the running forward call.

    Args:
        query: [1, H, T, D], rotary embedding applied; ``key`` and ``value`` are [1, K, T, D].
        scaling: Factor on the scores; 1/sqrt(D) when None.
        sliding_window: Number of keys that a query sees, itself included, or None for all.
        softcap: Bound that scores approach, or None.
        s_aux: [H] logits of attention sinks, or None.
        attention_plan: What the engine handed to the model's forward.

    Returns:
        The output [1, T, H, D] and None in place of the weights.

    Raises:
        ConfigError: There is no plan, or the model asks for a feature that plans do not have;
            ignoring it would train another model than the one that was asked for.
    """
    if attention_plan is None:
        raise ConfigError(
            "this model is set up for areal.engine and was called without an attention_plan; "
            "call model.set_attn_implementation('sdpa') first to use it by hand"
        )
    found = "position_bias" if kwargs.get("position_bias") is not None else ""
    if dropout:
        found = found or f"attention dropout {dropout} (disable_dropout=true turns it off)"
    if found:
        raise ConfigError(
            f"{type(module).__name__} needs {found}, which the embedded attention does not have"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out_THD = attention_plan.attend(
        module.layer_idx, query[0], key[0], value[0], scale, sliding_window, softcap, s_aux
    )
    return out_THD.unsqueeze(0), None


AttentionInterface.register(IMPLEMENTATION, planned_attention)


def require_planned_attention(model: nn.Module) -> None:
    """Refuse a model whose attention does not follow plans.

    Raises:
        ConfigError: The model is not prepared; the message has how to.
    """
    config = getattr(model, "config", None)
    # Of a model with parts, that of the one that makes text.
    found = config and getattr(config.get_text_config(), "_attn_implementation", None)
    if found != IMPLEMENTATION:
        raise ConfigError(
            f"{type(model).__name__} has the attention implementation {found!r}; pass it through "
            "areal.engine.loading.huggingface.prepare_model(model, device) first"
        )


def causal_sdpa(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    """Return causal attention of right-padded queries [B, H, L, D] and keys [B, K, L, D].

    Padding needs no mask: it is to the right, so no real query sees it.
    """
    mask = None
    if window is not None and window < q.shape[2]:
        offset = torch.arange(q.shape[2], device=q.device)
        distance = offset[:, None] - offset[None, :]
        mask = (distance >= 0) & (distance < window)
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )


def attention_with_sinks(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, softcap: float | None, sinks: Any
) -> Tensor:
    """Return attention [B, H, L, D] with capped scores, sinks or both, of which no kernel is here.

    Args:
        q: [B, H, L, D]; ``k`` is [B, K, C, D], ``v`` [B, K, C, Dv].
        mask: What is added to the scores, broadcast to [B, K, H / K, L, C].
        scale: Factor on the scores.
        softcap: Bound that scores approach, or None.
        sinks: [H] logits of one more key, or None.
    """
    dtype, grouped = v.dtype, q.unflatten(1, (k.shape[1], -1)).float()
    scores = grouped @ k[:, :, None].transpose(-1, -2).float() * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + mask
    if sinks is not None:
        sink = sinks.float().view(k.shape[1], -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sink], -1)
    weights = scores.softmax(-1)[..., : k.shape[2]]
    return (weights @ v[:, :, None].float()).flatten(1, 2).to(dtype)


def causal_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Return causal attention of queries [B, H, L, D] and keys [B, K, L, D] of any kind."""
    if softcap is not None:
        rows = (x.float() for x in (q, k, v))
        return softcap_attention(*rows, scale, softcap, window, sinks).to(q.dtype)
    if sinks is None:
        return causal_sdpa(q, k, v, scale, window)
    offset = torch.arange(q.shape[2], device=q.device)
    distance = offset[:, None] - offset
    hidden = (distance < 0) | (distance >= (window or len(offset)))
    mask = torch.zeros(hidden.shape, device=q.device).masked_fill_(hidden, float("-inf"))
    return attention_with_sinks(q, k, v, mask, scale, None, sinks)


def _tree_masks(
    rows: PackedRows, distances_UC: Tensor, window: int | None, dtype: torch.dtype
) -> list[Tensor]:
    """Return what is added to the scores of each part of the rows, [count, 1, L, L]."""
    masks = []
    for distances in rows.split(distances_UC[None]):
        distances = distances[..., : distances.shape[2]]
        hidden = distances < 0 if window is None else (distances < 0) | (distances >= window)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
        masks.append(mask.masked_fill_(hidden, float("-inf")))
    return masks


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Return attention [B, H, L, D] of any kind, with a mask [B or 1, 1, L, C] on the scores."""
    if softcap is not None or sinks is not None:
        return attention_with_sinks(q, k, v, mask[:, None], scale, softcap, sinks)
    is_grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=is_grouped
    )


class PackedPlan:
    """Causal attention inside each sequence of a packed batch, none across.

    Short sequences of similar length are attended to together, padded to the longest of them, and
    long ones alone, see ``areal.utils.packed_rows``.

    Args:
        lengths: Tokens of each sequence, in packed order; all positive.
        device: Where the tokens are.
        places: Where each token of the sequences is in the batch; see ``PackedRows``.
        distances_UC: How far before each token of the batch the tokens of its sequence are, which
            is a tree where each token sees some of those before it; -1 where it does not see one.
            None lets each token see all.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device | str = "cpu",
        places: Tensor | None = None,
        distances_UC: Tensor | None = None,
    ) -> None:
        self._lengths = list(lengths)
        self._device = device
        self._places = places
        self._distances_UC = distances_UC
        self._masks: dict[tuple[int, int | None], list[Tensor]] = {}
        # The rows depend on how much work a head is, which is the same in all layers but for few.
        self._rows: dict[int, PackedRows] = {}

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D]."""
        longest_shared = longest_shared_length(q_HTD.shape[0] * q_HTD.shape[2])
        if longest_shared not in self._rows:
            self._rows[longest_shared] = PackedRows(
                self._lengths, self._device, longest_shared, self._places
            )
        rows = self._rows[longest_shared]
        parts = zip(*(rows.split(x) for x in (q_HTD, k_KTD, v_KTD)), strict=True)
        if self._distances_UC is None:
            return rows.join(
                [causal_attention(q, k, v, scale, window, softcap, sinks) for q, k, v in parts]
            )
        key = longest_shared, window
        if key not in self._masks:
            self._masks[key] = _tree_masks(rows, self._distances_UC, window, q_HTD.dtype)
        seen = zip(parts, self._masks[key], strict=True)
        return rows.join(
            [masked_attention(q, k, v, mask, scale, softcap, sinks) for (q, k, v), mask in seen]
        )


class UlyssesPlan:
    """Attends to all tokens of a row that several processes share, with a part of the heads each.

    Args:
        plan: How the tokens of the whole row attend.
        group: The processes that share the row.
    """

    def __init__(self, plan: AttentionPlan, group: dist.ProcessGroup) -> None:
        self._plan = plan
        self._group = group

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Return the attention output of one layer as [T, H, D], of this process's tokens."""
        q, k, v = share_heads(q_HTD[None], k_KTD[None], v_KTD[None], self._group)
        sinks = own_heads(sinks, self._group)
        out_THD = self._plan.attend(layer, q[0], k[0], v[0], scale, window, softcap, sinks)
        return gather_heads_scatter_seq(out_THD, 1, 0, self._group)
