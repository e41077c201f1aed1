"""Heads in other shapes, so that one plain kernel computes every variant of attention.

Shape letters: B rows, H heads, K key-value heads, L tokens, D head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """Return a projection [1, T, H * D] as heads [1, H, T, D]; H follows from its width."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Return heads [1, H, T, D] as [1, T, H * D]."""
    return x.transpose(1, 2).flatten(2)


def pad_heads(multiple: int, *heads: Tensor) -> list[Tensor]:
    """Pad the last dimension of each with zeros, to the largest of them and to a multiple.

    Zeros change no score and add only zeros to the output.
    """
    size = max(x.shape[-1] for x in heads)
    size = -(-size // multiple) * multiple
    return [x if x.shape[-1] == size else F.pad(x, (0, size - x.shape[-1])) for x in heads]


def with_key_bias(
    q: Tensor, k: Tensor, v: Tensor, bias_HL: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values whose scaled scores have ``bias_HL`` added to them.

    The bias of a key is carried by more dimensions of the head, in which every query is 1. So ALiBi
    needs no mask, which would have a number for each head, query and key. In 16 bits the bias takes
    three dimensions, each the rounding error of those before, which keeps fp32's precision.

    Args:
        q: [1, H, L, D]; ``k`` and ``v`` are [1, K, L, D] and repeated for each head.
        bias_HL: Bias of each key, as the heads of the queries see it.
    """
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    rest = bias_HL.float() / scale
    parts = []
    for _ in range(1 if q.dtype in (torch.float32, torch.float64) else 3):
        parts.append(rest.to(k.dtype))
        rest = rest - parts[-1].float()
    added = torch.stack(parts, dim=-1).expand(k.shape[0], -1, -1, -1)
    ones = q.new_ones(1).expand(*q.shape[:-1], len(parts))
    return torch.cat((q, ones), dim=-1), torch.cat((k, added), dim=-1), v
