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
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from areal.api.errors import ConfigError

IMPLEMENTATION = "areal_planned"

# A bucket of sequences is padded to its longest; it takes the next shorter one as long as this
# share is real tokens.
MIN_BUCKET_FILL = 0.75


class AttentionPlan(Protocol):
    """Says how the tokens of one forward call attend to each other and to what is cached."""

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """Returns the attention output of one layer as [T, H, D]."""
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
    attention_plan: AttentionPlan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attends as the plan of the running forward call says.

    Args:
        query: [1, H, T, D], rotary embedding applied; ``key`` and ``value`` are [1, K, T, D].
        scaling: Factor on the scores; 1/sqrt(D) when None.
        sliding_window: Number of keys that a query sees, itself included, or None for all.
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
    unsupported = [
        name for name in ("softcap", "s_aux", "position_bias") if kwargs.get(name) is not None
    ]
    if unsupported or dropout:
        found = ", ".join(unsupported)
        found = found or f"attention dropout {dropout} (disable_dropout=true turns it off)"
        raise ConfigError(
            f"{type(module).__name__} needs {found}, which the embedded attention does not have"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out_THD = attention_plan.attend(
        module.layer_idx, query[0], key[0], value[0], scale, sliding_window
    )
    return out_THD.unsqueeze(0), None


AttentionInterface.register(IMPLEMENTATION, planned_attention)


def require_planned_attention(model: nn.Module) -> None:
    """Refuses a model whose attention does not follow plans.

    Raises:
        ConfigError: It says how to prepare the model.
    """
    found = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if found != IMPLEMENTATION:
        raise ConfigError(
            f"{type(model).__name__} has the attention implementation {found!r}; pass it through "
            "areal.engine.model.prepare_model(model, device) first"
        )


def causal_sdpa(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    """Returns causal attention of right-padded queries [B, H, L, D] and keys [B, K, L, D].

    Padding needs no mask: it stands to the right, so no real query sees it.
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


def bucket_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Groups sequences of similar length, so that padding a group to its longest wastes little.

    Returns:
        Lists of indices into ``lengths`` that together hold each index once.
    """
    buckets: list[list[int]] = []
    longest = real = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if buckets and (real + length) >= MIN_BUCKET_FILL * longest * (len(buckets[-1]) + 1):
            buckets[-1].append(index)
            real += length
        else:
            buckets.append([index])
            longest = real = length
    return buckets


class PackedPlan:
    """Causal attention inside each sequence of a packed batch, none across.

    Sequences of similar length are attended to together, padded to the longest of them; on a CPU
    one call per bucket costs far less than one per sequence, and far less than padding the whole
    batch.

    Args:
        lengths: Tokens of each sequence, in packed order; all positive.
        device: Where the tokens are.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.lengths = list(lengths)
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        self.total = starts[-1]
        self._buckets: list[tuple[int, int, Tensor | None]] = []
        self._inverse: Tensor | None = None
        groups = bucket_by_length(self.lengths)
        if len(groups) == 1 and min(self.lengths) == max(self.lengths):
            self._buckets.append((len(self.lengths), self.lengths[0], None))
            return
        inverse = torch.empty(self.total, dtype=torch.long)
        offset = 0
        for group in groups:
            longest = self.lengths[group[0]]
            first = torch.tensor([starts[i] for i in group])[:, None]
            size = torch.tensor([self.lengths[i] for i in group])[:, None]
            column = torch.arange(longest)[None, :]
            # Padding points at the sequence's own last token: it is read by no real query and stays
            # in bounds.
            index = first + torch.minimum(column, size - 1)
            flat = torch.arange(offset, offset + index.numel()).view_as(index)
            real = column < size
            inverse[index[real]] = flat[real]
            offset += index.numel()
            self._buckets.append((len(group), longest, index.flatten().to(device)))
        self._inverse = inverse.to(device)

    def attend(
        self,
        layer: int,
        q_HTD: Tensor,
        k_KTD: Tensor,
        v_KTD: Tensor,
        scale: float,
        window: int | None,
    ) -> Tensor:
        """Returns the attention output of one layer as [T, H, D]."""
        outputs = []
        for count, longest, index in self._buckets:
            q, k, v = (_to_rows(x, count, longest, index) for x in (q_HTD, k_KTD, v_KTD))
            out = causal_sdpa(q, k, v, scale, window)
            outputs.append(out.transpose(1, 2).reshape(count * longest, *out.shape[1::2]))
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return joined if self._inverse is None else joined.index_select(0, self._inverse)


def _to_rows(x_HTD: Tensor, count: int, longest: int, index: Tensor | None) -> Tensor:
    """Returns packed [H, T, D] as [count, H, longest, D]."""
    picked = x_HTD if index is None else x_HTD.index_select(1, index)
    return picked.view(x_HTD.shape[0], count, longest, x_HTD.shape[2]).transpose(0, 1)
