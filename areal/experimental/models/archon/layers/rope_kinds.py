"""How each kind of rotary embedding turns positions into angles.

Source: Su et al. 2021, arXiv:2104.09864, section 3.2, and what is named at each kind. Constants and
the order of roundings are those of transformers' ``modeling_rope_utils``, so that checkpoints mean
the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names

# Kinds that scale from the context of pre-training; configs may leave it out.
_SCALED_FROM_ORIGINAL = ("llama3", "longrope", "yarn")


@dataclass(frozen=True)
class RopeArgs:
    """How positions turn into angles.

    Attributes:
        dim: Dimensions of a head that rotate; an odd number counts as the next even one.
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
            raise ConfigError(
                f"unsupported rope_type {self.kind!r}{nearest_names(self.kind, ROPE_KINDS)}"
            )
        if self.dim <= 0:
            raise ConfigError(f"rotary dimension {self.dim}: it must be positive")
        missing = [key for key in ROPE_KINDS[self.kind].needs if key not in self.scaling]
        if missing:
            raise ConfigError(
                f"rope_type {self.kind!r} needs {', '.join(missing)} in rope_parameters"
            )
        for key in ("short_factor", "long_factor"):
            factors = self.scaling.get(key)
            if self.kind == "longrope" and len(factors) != (self.dim + 1) // 2:
                raise ConfigError(
                    f"{key} of rope_type 'longrope' has {len(factors)} numbers and "
                    f"{(self.dim + 1) // 2} pairs of dimensions rotate"
                )

    @property
    def score_multiplier(self) -> float:
        """What latent attention multiplies scores with beside its scale.

        Source:
            YaRN with ``mscale_all_dim``, as DeepSeek-V2 uses it: (0.1 m ln(factor) + 1) squared.
        """
        strength, factor = (
            self.scaling.get("mscale_all_dim") or 0.0,
            self.scaling.get("factor", 1.0),
        )
        if self.kind == "default" or not strength or factor <= 1:
            return 1.0
        return (0.1 * strength * math.log(factor) + 1.0) ** 2

    @classmethod
    def from_hf(
        cls,
        hf_config: Any,
        layer_type: str | None = None,
        dim: int | None = None,
        fixed_by: str | None = None,
    ) -> RopeArgs:
        """Read the arguments from a Hugging Face config, of transformers 5 or older.

        Args:
            layer_type: Which entry to take where ``rope_parameters`` has one for each layer type.
            dim: Rotary dimensions where they are not ``head_dim * partial_rotary_factor``.
            fixed_by: The parameter that sets by how much the base of a dynamic rotation grows,
                whatever the length of a sequence; None where the model reads no such parameter.

        Raises:
            ConfigError: The kind is unknown, lacks a value, or rotates more than a head.
        """
        parameters = _flat_parameters(hf_config, layer_type)
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        if kind == "default":
            kind = getattr(hf_config, "default_rope_type", "default")
        head_dim = getattr(hf_config, "head_dim", None)
        if head_dim is None:
            head_dim = hf_config.hidden_size // hf_config.num_attention_heads
        share = parameters.get("partial_rotary_factor", None)
        if share is None:
            share = getattr(hf_config, "partial_rotary_factor", None) or 1.0
        if dim is None:
            # The proportional kind covers the whole head: what does not rotate has frequency 0.
            dim = head_dim if kind == "proportional" else int(head_dim * share)
            if dim + dim % 2 > head_dim:
                raise ConfigError(f"a head of {head_dim} dimensions cannot rotate {dim} in pairs")
        theta = parameters.get("rope_theta")
        if theta is None:
            theta = getattr(hf_config, "rope_theta", None)
        if theta is None:
            theta = getattr(hf_config, "default_theta", 10000.0)
        growth = parameters.get(fixed_by) if fixed_by is not None and kind == "dynamic" else None
        if growth:
            theta, kind, parameters = theta * growth ** (dim / (dim - 2)), "default", {}
        dropped = ("rope_theta", "rope_type", "type")
        return cls(
            dim=dim,
            theta=float(theta),
            kind=kind,
            max_position_embeddings=getattr(hf_config, "max_position_embeddings", 2048),
            scaling={
                key: value
                for key, value in parameters.items()
                if key not in dropped and value is not None
            },
        )

    @property
    def attention_factor(self) -> float:
        """The factor on cos and sin."""
        return ROPE_KINDS[self.kind].attention_factor(self)

    def frequencies(self) -> Tensor:
        """Return the angle per position of each pair, [dim / 2] in fp32 on the CPU."""
        return ROPE_KINDS[self.kind].frequencies(self)

    def frequencies_by_length(self, lengths_B: Tensor) -> Tensor | None:
        """Return [B, dim / 2] for kinds that look at a sequence's length, None for others."""
        by_length = ROPE_KINDS[self.kind].by_length
        return None if by_length is None else by_length(self, lengths_B)


def _flat_parameters(hf_config: Any, layer_type: str | None) -> dict[str, Any]:
    """Return the parameters of one layer type, from where any version of transformers has them."""
    found = getattr(hf_config, "rope_parameters", None) or {}
    nested = {key: value for key, value in found.items() if isinstance(value, Mapping)}
    if nested and layer_type not in found:
        raise ConfigError(
            f"rope_parameters has the layer types {', '.join(sorted(nested))}, not {layer_type!r}"
        )
    if nested:
        flat = dict(found[layer_type] or {})
    else:
        flat = dict(found or getattr(hf_config, "rope_scaling", None) or {})
    if (flat.get("rope_type") or flat.get("type")) in _SCALED_FROM_ORIGINAL:
        original = getattr(hf_config, "original_max_position_embeddings", None)
        if original is not None and not nested:
            flat["original_max_position_embeddings"] = original
        flat.setdefault(
            "original_max_position_embeddings", getattr(hf_config, "max_position_embeddings", 2048)
        )
    if nested:
        # transformers reads `truncate` beside the layer types, where it never is.
        flat.pop("truncate", None)
    return flat


def _exponents(dim: int) -> Tensor:
    return torch.arange(0, dim, 2, dtype=torch.int64).float() / dim


def _plain(args: RopeArgs) -> Tensor:
    return 1.0 / (args.theta ** _exponents(args.dim))


def _linear(args: RopeArgs) -> Tensor:
    """Positions are divided: Chen et al. 2023, arXiv:2306.15595."""
    return _plain(args) / args.scaling["factor"]


def _proportional(args: RopeArgs) -> Tensor:
    """A share of the pairs rotates, at wavelengths of the whole head; the others stand still."""
    rotating = int(args.scaling.get("partial_rotary_factor", 1.0) * args.dim // 2)
    exponents = torch.arange(0, 2 * rotating, 2, dtype=torch.int64).float() / args.dim
    still = torch.zeros(args.dim // 2 - rotating)
    return torch.cat((1.0 / (args.theta**exponents), still)) / args.scaling.get("factor", 1.0)


def _dynamic_by_length(args: RopeArgs, lengths_B: Tensor) -> Tensor:
    """The base grows once a sequence passes the context: "dynamic NTK", u/emozilla 2023."""
    factor, context = args.scaling["factor"], args.max_position_embeddings
    beyond = lengths_B.clamp(min=context)
    growth = (factor * beyond / context) - (factor - 1)
    base = args.theta * growth ** (args.dim / (args.dim - 2))
    return 1.0 / (base[:, None] ** _exponents(args.dim).to(base.device))


def _yarn(args: RopeArgs) -> Tensor:
    """Long wavelengths are interpolated, short ones kept: Peng et al. 2023, arXiv:2309.00071."""
    scaling, dim = args.scaling, args.dim
    original = scaling["original_max_position_embeddings"]

    def pair_that_turns(times: float) -> float:
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(args.theta))

    low = pair_that_turns(scaling.get("beta_fast") or 32)
    high = pair_that_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high = high + 0.001 if low == high else high
    interpolated = ((torch.arange(dim // 2).float() - low) / (high - low)).clamp(0, 1)
    periods = args.theta ** (torch.arange(0, dim, 2).float() / dim)
    kept = 1 - interpolated
    return 1.0 / (_factor(args) * periods) * (1 - kept) + 1.0 / periods * kept


def _factor(args: RopeArgs) -> float:
    """Return by how much the context grew, stated or from the two contexts."""
    factor = args.scaling.get("factor")
    if factor is None:
        original = args.scaling["original_max_position_embeddings"]
        factor = args.max_position_embeddings / original
    return factor


def _yarn_attention_factor(args: RopeArgs) -> float:
    scaling = args.scaling
    if scaling.get("attention_factor") is not None:
        return scaling["attention_factor"]

    def temperature(weight: float) -> float:
        factor = _factor(args)
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return temperature(scaling["mscale"]) / temperature(scaling["mscale_all_dim"])
    return temperature(1)


def _longrope(args: RopeArgs, key: str = "short_factor") -> Tensor:
    """Each pair has a factor of its own: Ding et al. 2024, arXiv:2402.13753."""
    factors = torch.tensor(args.scaling[key], dtype=torch.float32)
    return 1.0 / (factors * args.theta ** _exponents(args.dim))


def _longrope_by_length(args: RopeArgs, lengths_B: Tensor) -> Tensor:
    """Sequences past the original context take the long factors."""
    is_long = lengths_B > args.scaling["original_max_position_embeddings"]
    short, long = (
        _longrope(args, key).to(lengths_B.device) for key in ("short_factor", "long_factor")
    )
    return torch.where(is_long[:, None], long, short)


def _longrope_attention_factor(args: RopeArgs) -> float:
    stated, factor = args.scaling.get("attention_factor"), _factor(args)
    if stated is not None:
        return stated
    if factor <= 1.0:
        return 1.0
    original = args.scaling["original_max_position_embeddings"]
    return math.sqrt(1 + math.log(factor) / math.log(original))


def _llama3(args: RopeArgs) -> Tensor:
    """Long wavelengths are interpolated, with a smooth passage: Llama 3.1, arXiv:2407.21783."""
    scaling, plain = args.scaling, _plain(args)
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelengths = 2 * math.pi / plain
    slow = wavelengths > original / low
    fast = wavelengths < original / high
    share = (original / wavelengths - low) / (high - low)
    between = (1 - share) * plain / scaling["factor"] + share * plain
    return torch.where(slow, plain / scaling["factor"], torch.where(fast, plain, between))


def _one(args: RopeArgs) -> float:
    return 1.0


@dataclass(frozen=True)
class RopeKind:
    """The formulas of one kind.

    Attributes:
        frequencies: Angle per position of each pair, for sequences within the context.
        attention_factor: Factor on cos and sin.
        by_length: The same for each of several lengths, where the kind looks at it.
        needs: Keys of ``rope_parameters`` that must be there.
    """

    frequencies: Callable[[RopeArgs], Tensor]
    attention_factor: Callable[[RopeArgs], float] = _one
    by_length: Callable[[RopeArgs, Tensor], Tensor] | None = None
    needs: tuple[str, ...] = ()


_ORIGINAL = "original_max_position_embeddings"

ROPE_KINDS: dict[str, RopeKind] = {
    "default": RopeKind(_plain),
    "dynamic": RopeKind(_plain, by_length=_dynamic_by_length, needs=("factor",)),
    "linear": RopeKind(_linear, needs=("factor",)),
    "llama3": RopeKind(_llama3, needs=("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)),
    "longrope": RopeKind(
        _longrope,
        _longrope_attention_factor,
        _longrope_by_length,
        needs=("short_factor", "long_factor", _ORIGINAL),
    ),
    "proportional": RopeKind(_proportional),
    "yarn": RopeKind(_yarn, _yarn_attention_factor, needs=(_ORIGINAL,)),
}
