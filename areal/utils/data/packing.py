"""Between padded batches [B, L] and packed ones [T], T the number of real tokens.

A packed batch strings its sequences together without padding; ``cu_seqlens`` int32 [B + 1] holds
the offsets where they begin and end, which is what variable-length attention reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from areal.utils.data.containers import TensorDict


def pack_tensor_dict(data: TensorDict) -> TensorDict:
    """Pack a padded batch: tensors [B, L, ...] become [T, ...], in row order.

    Everything else ([B] tensors, lists, values) is kept as it is. ``attention_mask`` is dropped;
    ``cu_seqlens`` (int32 [B + 1]) and ``max_seqlen`` (int) take its place.

    Args:
        data: A batch with a bool or 0/1 ``attention_mask`` [B, L].
    """
    mask_BL = data["attention_mask"].bool()
    seqlens = mask_BL.sum(dim=1, dtype=torch.int32)
    real_places = mask_BL.flatten().nonzero().squeeze(1)
    packed: TensorDict = {}
    for key, value in data.items():
        if key == "attention_mask":
            continue
        if is_per_token(value, mask_BL):
            value = value.flatten(0, 1).index_select(0, real_places)
        packed[key] = value
    packed["cu_seqlens"] = F.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
    packed["max_seqlen"] = int(seqlens.max()) if len(seqlens) else 0
    return packed


def is_per_token(value: object, attention_mask: torch.Tensor) -> bool:
    """Return whether a value is a tensor whose first two dimensions are those of the mask."""
    return torch.is_tensor(value) and value.shape[:2] == attention_mask.shape


def pad_packed_tensor(
    x: torch.Tensor, attention_mask: torch.Tensor, pad_value: float = 0.0
) -> torch.Tensor:
    """Spread a packed tensor [T, ...] back over the real places of [B, L, ...].

    It is the inverse of ``pack_tensor_dict`` for one tensor, and differentiable.

    Raises:
        ValueError: The mask has another number of real places than the tensor has rows.
    """
    mask_BL = attention_mask.bool()
    real_places = mask_BL.flatten().nonzero().squeeze(1)
    if len(real_places) != len(x):
        raise ValueError(f"{len(x)} packed values do not fit {len(real_places)} real places")
    out = x.new_full((mask_BL.numel(), *x.shape[1:]), pad_value)
    return out.index_copy(0, real_places, x).unflatten(0, tuple(mask_BL.shape))


def unpack_sequence(
    x: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
    lens: Sequence[int] | torch.Tensor | None = None,
    dim: int = 0,
) -> tuple[torch.Tensor, ...]:
    """Cut a packed tensor into one view per sequence.

    Args:
        x: Packed along ``dim``.
        cu_seqlens: Offsets [B + 1]; taken if both are given.
        lens: Lengths [B].
        dim: The packed dimension.

    Raises:
        ValueError: Neither offsets nor lengths are given.
    """
    if cu_seqlens is not None:
        sizes = cu_seqlens.diff().tolist()
    elif lens is not None:
        sizes = lens.tolist() if torch.is_tensor(lens) else list(lens)
    else:
        raise ValueError("give cu_seqlens or lens")
    return x.split(sizes, dim=dim)


def pad_packed_tensor_dict(
    packed: TensorDict, total_length: int, pad_value: float = 0.0
) -> TensorDict:
    """Append one sequence of padding, so that a packed batch has ``total_length`` tokens.

    Per-token tensors grow by ``pad_value`` (``position_ids`` count up from 0, or the padding would
    be a run of first tokens); [B] tensors stay, as the extra sequence has no row of its own.
    ``loss_mask`` is padded with 0 whatever the pad value, so no loss counts the padding.

    Raises:
        ValueError: The batch is longer than ``total_length`` already.
    """
    cu_seqlens = packed["cu_seqlens"]
    num_tokens = int(cu_seqlens[-1])
    padding = total_length - num_tokens
    if padding < 0:
        raise ValueError(f"{num_tokens} tokens do not fit into {total_length}")
    if padding == 0:
        return dict(packed)
    padded = {k: _pad_value(k, v, num_tokens, padding, pad_value) for k, v in packed.items()}
    padded["cu_seqlens"] = F.pad(cu_seqlens, (0, 1), value=total_length)
    padded["max_seqlen"] = max(packed["max_seqlen"], padding)
    return padded


def _pad_value(key: str, value: object, num_tokens: int, padding: int, pad_value: float) -> object:
    if not torch.is_tensor(value) or value.ndim == 0 or len(value) != num_tokens:
        return value
    if key == "position_ids" and value.ndim == 1:
        tail = torch.arange(padding, dtype=value.dtype, device=value.device)
    else:
        fill = 0.0 if key == "loss_mask" else pad_value
        tail = value.new_full((padding, *value.shape[1:]), fill)
    return torch.cat([value, tail])
