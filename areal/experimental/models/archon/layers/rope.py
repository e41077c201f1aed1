"""Rotary position embeddings, applied to the heads of a packed row.

Shape letters: B sequences, T tokens of the packed row, H heads, D head size, R rotary dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope_kinds import ROPE_KINDS, RopeArgs

__all__ = [
    "ROPE_KINDS",
    "InFP32",
    "Pairing",
    "RopeArgs",
    "RopeTable",
    "RotaryEmbedding",
    "apply_rotary",
    "apply_rotary_emb",
    "precompute_rope_cache",
    "repeat_kv",
    "reshape_for_broadcast",
    "rotate_half",
]

# Which dimensions turn together: i with i + R / 2, or 2i with 2i + 1.
Pairing = Literal["half", "interleaved"]
# What stays in fp32 where the model does not: nothing, products with rounded tables, or all.
InFP32 = Literal["", "products", "tables"]


@dataclass(frozen=True)
class RopeTable:
    """What rotates the heads of one forward call.

    Attributes:
        cos: [T, R / 2]; ``sin`` alike.
        pairing: Which dimensions turn together.
    """

    cos: Tensor
    sin: Tensor
    pairing: Pairing = "half"


class RotaryEmbedding(nn.Module):
    """Makes the rope table of a packed batch; positions have no upper limit.

    Frequencies are no buffer on purpose: casting the model to bf16 would round them.

    Args:
        args: How positions turn into angles.
        pairing: Which dimensions turn together.
        reverse: Whether heads turn the other way.
        in_fp32: What is not rounded to the model's type before heads are.
    """

    def __init__(
        self,
        args: RopeArgs,
        pairing: Pairing = "half",
        *,
        reverse: bool = False,
        in_fp32: InFP32 = "",
    ) -> None:
        super().__init__()
        self.in_fp32 = in_fp32
        self.args = args
        self.pairing: Pairing = pairing
        self.reverse = reverse
        self._frequencies: dict[torch.device, Tensor] = {}
        self._cp_group: Any = None

    def set_cp_group(self, group: Any) -> None:
        """Declare that the tokens of a call are this rank's slice of the packed row (Ulysses)."""
        self._cp_group = group

    def forward(self, packing: Packing, dtype: torch.dtype = torch.float32) -> RopeTable:
        """Return cos and sin for each token, computed in fp32 and then cast to ``dtype``.

        Some models round them and compute with them in fp32, or do not round them at all.
        """
        angles = packing.positions.float()[:, None] * self._angle_per_position(packing)
        cos, sin = angles.cos(), angles.sin()
        factor = self.args.attention_factor
        if factor != 1.0:
            cos, sin = cos * factor, sin * factor
        sin = -sin if self.reverse else sin
        if self.in_fp32 != "tables":
            cos, sin = cos.to(dtype), sin.to(dtype)
        if self.in_fp32 == "products":
            cos, sin = cos.float(), sin.float()
        return RopeTable(cos, sin, self.pairing)

    def _angle_per_position(self, packing: Packing) -> Tensor:
        """Return [R / 2], or [T, R / 2] where it depends on the sequence's length."""
        device = packing.positions.device
        by_length = self.args.frequencies_by_length(packing.context_lengths)
        if by_length is not None:
            rank = 0 if self._cp_group is None else self._cp_group.rank()
            first_token = rank * packing.positions.shape[0]
            return by_length[packing.sequence_ids_from(first_token)]
        if device not in self._frequencies:
            self._frequencies[device] = self.args.frequencies().to(device)
        return self._frequencies[device]


def apply_rotary(x: Tensor, rope: RopeTable) -> Tensor:
    """Return the heads [1, H, T, D] rotated; dimensions past the table's stay as they are.

    Raises:
        ConfigError: The table has more dimensions than the heads.
    """
    cos, sin = rope.cos, rope.sin
    rotary_dim = 2 * cos.shape[-1]
    if rotary_dim > x.shape[-1]:
        raise ConfigError(f"{rotary_dim} dimensions rotate, and a head has {x.shape[-1]}")
    turning, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if rope.pairing == "half":
        first, second = turning.chunk(2, dim=-1)
        parts = (first * cos - second * sin, second * cos + first * sin)
        turned = torch.cat(parts, dim=-1).to(x.dtype)
        return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned
    first, second = turning[..., ::2], turning[..., 1::2]
    pairs = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
    turned = pairs.flatten(-2).to(x.dtype)
    return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned


# --- the form with a cache over all positions, for callers that know AReaL's functions ---


def precompute_rope_cache(dim: int, max_seq_len: int, base: float = 10000.0) -> Tensor:
    """Return [max_seq_len, 2 * dim]: cos, then sin, each repeated for both halves of a head."""
    angles = torch.arange(max_seq_len).float()[:, None] * RopeArgs(dim, base).frequencies()
    both = torch.cat((angles, angles), dim=-1)
    return torch.cat((both.cos(), both.sin()), dim=-1)


def reshape_for_broadcast(rope_cache: Tensor, x: Tensor, positions: Tensor | None = None) -> Tensor:
    """Return the cache's rows as [B or 1, T, 1, 2 * dim], to meet x [B, T, H, D].

    Args:
        positions: [B, T] or [T]; the first T rows when None.
    """
    if positions is None:
        return rope_cache[None, : x.shape[1], None, :]
    return rope_cache[positions.view(-1, x.shape[1])].unsqueeze(2)


def rotate_half(x: Tensor) -> Tensor:
    """Return the second half of the last dimension, negated, then the first."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_emb(
    xq: Tensor, xk: Tensor, rope_cache: Tensor, positions: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return queries and keys [B, T, H, D] rotated in fp32 by rows of the cache."""
    cos, sin = reshape_for_broadcast(rope_cache, xq, positions).to(xq.device).chunk(2, dim=-1)
    rotated = (x.float() * cos + rotate_half(x.float()) * sin for x in (xq, xk))
    q, k = rotated
    return q.type_as(xq), k.type_as(xk)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    """Return heads [B, T, K, D] as [B, T, K * n_rep, D], copies side by side."""
    return x.repeat_interleave(n_rep, dim=2)
