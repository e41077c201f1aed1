"""Rotary position embeddings of every kind that transformers knows.

Source: Su et al. 2021, arXiv:2104.09864, and the formula named at each kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.packing import Packing

Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True)
class RopeArgs:
    """Says how positions turn into angles.

    Attributes:
        dim: Dimensions of a head that rotate.
        theta: Base of the wavelengths.
        kind: Name of the scaling, a key of ``ROPE_KINDS``.
        max_position_embeddings: Context that the config states; some kinds scale from it.
        scaling: What the kind takes beside, under the names of the config's ``rope_parameters``.
    """

    dim: int
    theta: float = 10000.0
    kind: str = "default"
    max_position_embeddings: int = 2048
    scaling: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in ROPE_KINDS:
            known = ", ".join(sorted(ROPE_KINDS))
            raise ConfigError(f"unsupported rope_type {self.kind!r}; known: {known}")
        if self.dim <= 0 or self.dim % 2:
            raise ConfigError(
                f"rotary dimension {self.dim}: pairs of dimensions rotate, so it must be even"
            )

    @classmethod
    def from_hf(
        cls, hf_config: Any, layer_type: str | None = None, dim: int | None = None
    ) -> RopeArgs:
        """Reads the arguments from a Hugging Face config.

        Args:
            layer_type: Which entry to take where ``rope_parameters`` has one for each layer type.
            dim: Rotary dimensions where they are not ``head_dim * partial_rotary_factor``.

        Raises:
            ConfigError: The kind is unknown, or lacks a value that it needs.
        """
        parameters = _rope_parameters(hf_config, layer_type)
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        head_dim = getattr(hf_config, "head_dim", None)
        if head_dim is None:
            head_dim = hf_config.hidden_size // hf_config.num_attention_heads
        share = parameters.get("partial_rotary_factor")
        if share is None:
            share = getattr(hf_config, "partial_rotary_factor", None) or 1.0
        if dim is None:
            dim = head_dim if kind == "proportional" else int(head_dim * share)
        theta = parameters.get("rope_theta", getattr(hf_config, "rope_theta", None))
        if theta is None:
            theta = getattr(hf_config, "default_theta", 10000.0)
        scaling = {
            key: value
            for key, value in parameters.items()
            if key not in ("rope_theta", "rope_type", "type") and value is not None
        }
        return cls(
            dim=dim,
            theta=float(theta),
            kind=kind,
            max_position_embeddings=getattr(hf_config, "max_position_embeddings", 2048),
            scaling=scaling,
        )


def _rope_parameters(hf_config: Any, layer_type: str | None) -> dict[str, Any]:
    """Returns the flat parameters, from any of the places where configs keep them."""
    found = getattr(hf_config, "rope_parameters", None) or {}
    if any(isinstance(value, Mapping) for value in found.values()):
        if layer_type not in found:
            raise ConfigError(
                f"rope_parameters has the layer types {sorted(found)} and not {layer_type!r}"
            )
        return dict(found[layer_type] or {})
    return dict(found or getattr(hf_config, "rope_scaling", None) or {})


# --- kinds: (args) -> (inverse frequencies [dim / 2] in fp32, factor on cos and sin) ---


def _wavelength_exponents(dim: int) -> Tensor:
    return torch.arange(0, dim, 2, dtype=torch.int64).float() / dim


def _default(args: RopeArgs) -> tuple[Tensor, float]:
    return 1.0 / args.theta ** _wavelength_exponents(args.dim), 1.0


def _linear(args: RopeArgs) -> tuple[Tensor, float]:
    return _default(args)[0] / _needed(args, "factor"), 1.0


def _needed(args: RopeArgs, key: str) -> Any:
    """Returns a value of the scaling.

    Raises:
        ConfigError: It is missing.
    """
    if key not in args.scaling:
        raise ConfigError(f"rope_type {args.kind!r} needs {key!r} in rope_parameters")
    return args.scaling[key]


ROPE_KINDS: dict[str, Callable[[RopeArgs], tuple[Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
}


# --- application ---


@dataclass(frozen=True)
class RopeTable:
    """Holds what rotates the heads of one forward call.

    Attributes:
        cos: [T, rotary_dim / 2]; ``sin`` alike.
        pairing: Whether dimension i rotates with i + rotary_dim / 2 ("half") or 2i with 2i + 1.
    """

    cos: Tensor
    sin: Tensor
    pairing: Pairing = "half"


class RotaryEmbedding(nn.Module):
    """Makes the rope table of a packed batch; positions have no upper limit.

    Frequencies are no buffer on purpose: casting the model to bf16 would round them.
    """

    def __init__(self, args: RopeArgs, pairing: Pairing = "half") -> None:
        super().__init__()
        self.args = args
        self.pairing: Pairing = pairing
        self._frequencies: dict[torch.device, Tensor] = {}
        self._attention_factor = 1.0

    def forward(self, packing: Packing, dtype: torch.dtype = torch.float32) -> RopeTable:
        """Returns cos and sin for each token, computed in fp32 and then cast to ``dtype``."""
        angles = packing.positions.float()[:, None] * self._inv_freq(packing)
        cos, sin = angles.cos(), angles.sin()
        if self._attention_factor != 1.0:
            cos, sin = cos * self._attention_factor, sin * self._attention_factor
        return RopeTable(cos.to(dtype), sin.to(dtype), self.pairing)

    def _inv_freq(self, packing: Packing) -> Tensor:
        device = packing.positions.device
        if device not in self._frequencies:
            frequencies, self._attention_factor = ROPE_KINDS[self.args.kind](self.args)
            self._frequencies[device] = frequencies.to(device)
        return self._frequencies[device]


def apply_rotary(x: Tensor, rope: RopeTable) -> Tensor:
    """Returns the heads [1, H, T, D] rotated; dimensions past the table's stay as they are."""
    cos, sin = rope.cos, rope.sin
    rotary_dim = 2 * cos.shape[-1]
    rest = x[..., rotary_dim:]
    turned = x[..., :rotary_dim]
    if rope.pairing == "half":
        first, second = turned.chunk(2, dim=-1)
        out = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = turned[..., ::2], turned[..., 1::2]
        pairs = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
        out = pairs.flatten(-2)
    return torch.cat((out, rest), dim=-1) if rest.shape[-1] else out
