"""Positions that are no rotation: learned, sinusoidal, and ALiBi's bias on the scores.

Shape letters: T tokens of the packed row, H heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing


class LearnedPositions(nn.Embedding):
    """Looks up one learned vector for each position.

    Args:
        size: Number of positions; the table has ``offset`` rows more.
        dim: Size of a vector.
        offset: Row of position 0.
    """

    def __init__(self, size: int, dim: int, offset: int = 0) -> None:
        super().__init__(size + offset, dim)
        self.size = size
        self.offset = offset

    def forward(self, packing: Packing) -> Tensor:
        """Return [1, T, dim].

        Raises:
            ConfigError: A sequence is longer than the table.
        """
        if packing.max_seqlen > self.size:
            raise ConfigError(
                f"a sequence of {packing.max_seqlen} tokens, and learned positions for {self.size}"
            )
        return super().forward(packing.positions + self.offset).unsqueeze(0)


class PositionsBesidePadding(nn.Embedding):
    """Looks up one learned vector for each token, and counts only those that are no padding.

    Args:
        rows: Of the table; the first position has the row after that of padding.
        dim: Size of a vector.
        padding_idx: Token used for padding, and the row that such tokens have.

    Raises:
        ConfigError: There is no padding.

    Source: ``make_positions`` of fairseq, as RoBERTa (arXiv:1907.11692) has it.
    """

    padding_idx: int

    def __init__(self, rows: int, dim: int, padding_idx: int | None) -> None:
        if padding_idx is None:
            raise ConfigError("pad_token_id is None, and positions are counted from it")
        super().__init__(rows, dim, padding_idx)

    def forward(self, tokens: Tensor, packing: Packing) -> Tensor:
        """Return [1, T, dim] of tokens [1, T].

        Raises:
            ConfigError: A sequence is longer than the table.
        """
        size = self.num_embeddings - self.padding_idx - 1
        if packing.max_seqlen > size:
            raise ConfigError(
                f"a sequence of {packing.max_seqlen} tokens, and learned positions for {size}"
            )
        is_text = (tokens[0] != self.padding_idx).long()
        count = is_text.cumsum(0)
        first = packing.cu_seqlens[:-1].long().clamp(max=len(count) - 1)
        before = (count - is_text)[first][packing.sequence_ids]
        return super().forward((count - before) * is_text + self.padding_idx).unsqueeze(0)


class SinusoidalPositions(nn.Module):
    """Computes one fixed vector of sines and cosines for each position.

    Args:
        dim: Size of a vector.
        offset: Position that the first token of a sequence has.
        layout: Whether all sines come before all cosines, or each before its cosine.
        reaches_base: Whether the slowest of the n wavelengths is ``base`` (exponents i / (n - 1))
            or one step short of it (exponents i / n).

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5; the exponents i / (n - 1) are those
        of tensor2tensor.
    """

    def __init__(
        self,
        dim: int,
        offset: int = 0,
        layout: Literal["concatenated", "interleaved"] = "concatenated",
        reaches_base: bool = False,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.offset = offset
        self.layout = layout
        self.reaches_base = reaches_base
        self.base = base

    def forward(self, packing: Packing, dtype: torch.dtype | None = None) -> Tensor:
        """Return [1, T, dim], in the default dtype unless told."""
        count = self.dim // 2
        device = packing.positions.device
        step = -math.log(self.base) / (count - 1 if self.reaches_base else count)
        frequencies = (torch.arange(count, device=device).float() * step).exp()
        angles = (packing.positions + self.offset).float()[:, None] * frequencies
        parts = (angles.sin(), angles.cos())
        if self.layout == "concatenated":
            table = torch.cat(parts, dim=-1)
        else:
            table = torch.stack(parts, dim=-1).flatten(-2)
        table = nn.functional.pad(table, (0, self.dim % 2))
        return table.to(dtype or torch.get_default_dtype()).unsqueeze(0)


@dataclass(frozen=True)
class KeyBias:
    """Adds to each score a multiple of the key's position, which softmax sees as a distance.

    Attributes:
        slopes: [H] multiple of each head.
        scale: Factor on the product of slope and position.
        dtype: Type that the product is rounded to before it is scaled.
    """

    slopes: Tensor
    scale: float = 1.0
    dtype: torch.dtype = torch.float32

    def heads(self, first: int, count: int) -> KeyBias:
        """Return the bias of some of the heads."""
        return replace(self, slopes=self.slopes[first : first + count])

    def of(self, positions: Tensor) -> Tensor:
        """Return the bias [H, T] in fp32."""
        product = self.slopes.to(self.dtype)[:, None] * positions
        return product.float() * self.scale


class AlibiSlopes(nn.Module):
    """Makes ALiBi's bias; each head prefers near keys by a slope of its own.

    The slopes are no buffer, so that casting the model does not round them.

    Args:
        n_heads: Number of heads of the whole layer.
        max_bias: Exponent that the slopes reach: 2 ** -max_bias.
        scale: Factor on the bias, for families that add it to scores before scaling them.
        rounds_to_bf16: Whether the bias is rounded to bf16 before it is scaled.

    Source: Press, Smith and Lewis 2022, arXiv:2108.12409, section 3; between powers of two, the
        authors' code, which takes every other slope of the next power.
    """

    def __init__(
        self,
        n_heads: int,
        max_bias: float = 8.0,
        scale: float = 1.0,
        rounds_to_bf16: bool = False,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.max_bias = max_bias
        self.scale = scale
        self.dtype = torch.bfloat16 if rounds_to_bf16 else torch.float32
        # Tensor parallelism sets them to the heads of this rank.
        self.first_head = 0
        self._slopes: dict[torch.device, Tensor] = {}

    def forward(self, q: Tensor) -> KeyBias:
        """Return the bias of the heads of q [1, H, T, D], which may be some of all."""
        if q.device not in self._slopes:
            self._slopes[q.device] = alibi_slopes(self.n_heads, self.max_bias).to(q.device)
        bias = KeyBias(self._slopes[q.device], self.scale, self.dtype)
        return bias.heads(self.first_head, q.shape[1])


def alibi_slopes(n_heads: int, max_bias: float = 8.0) -> Tensor:
    """Return the slopes [H] in fp32; see ``AlibiSlopes``."""
    count = 2 ** math.ceil(math.log2(n_heads))
    slopes = 0.5 ** (torch.arange(1, count + 1).float() * (max_bias / count))
    if count == n_heads:
        return slopes
    return torch.cat((slopes[1::2], slopes[::2]))[:n_heads]


def log_temperature(
    positions: Tensor, *, scale: float, floor: float, offset: float = 0.0
) -> Tensor:
    """Return factors [T, 1] on the queries that grow with the logarithm of the position.

    Args:
        scale: How much the factor grows for each e-fold of positions.
        floor: Positions that share one factor; the first ``floor`` of them keep 1.
        offset: Added to each position.

    Source: Nakanishi 2025, arXiv:2501.19399, as transformers implements it for long contexts.
    """
    steps = torch.floor((positions.float() + offset) / floor)
    return (1.0 + scale * torch.log1p(steps))[:, None]


def power_temperature(
    positions: Tensor, *, power: float, length: float, offset: float = 0.0
) -> Tensor:
    """Return factors [T, 1] on the queries that grow with a power of the position.

    Args:
        power: Of 1 + (position + offset) / length.
        length: Positions after which the base has grown by one.
        offset: Added to each position.

    Source: Nakanishi 2025, arXiv:2501.19399, in the form that keeps short texts as they are.
    """
    return torch.exp(power * torch.log1p((positions.float() + offset) / length))[:, None]
