"""The records that measuring fills, and the tensors of modules that they keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class Observed:
    """What was found of a module: features by name, and the tensors of its Archon twin."""

    features: dict[str, Any]
    tensors: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Observation:
    """What was found of a model.

    Args:
        embedding: Features of what comes before the layers.
        head: Of what comes after them.
        layers: Of each layer: ``steps`` and ``modules`` by their Archon names.
        tensors: Archon parameter name -> value.
    """

    embedding: dict[str, Any]
    head: dict[str, Any]
    layers: list[dict[str, Any]]
    tensors: dict[str, Tensor] = field(default_factory=dict)


def linear_weight(module: nn.Module) -> Tensor | None:
    """Return the weight of a linear map as [out, in], also of one that keeps it transposed."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or isinstance(module, nn.Embedding):
        return None
    if type(module).__name__ == "Conv1D":
        return weight.detach().t()
    return weight.detach() if isinstance(module, nn.Linear) else None


def linear_bias(module: nn.Module) -> Tensor | None:
    """Return the bias of a linear map."""
    bias = getattr(module, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def keep(tensors: dict[str, Tensor], name: str, module: nn.Module) -> None:
    """Keep the parameters of a module under its Archon name."""
    tensors |= {f"{name}.{n}": p.detach() for n, p in module.named_parameters()}


def keep_linear(
    tensors: dict[str, Tensor], name: str, module: nn.Module, of: Any = slice(None)
) -> bool:
    """Keep a linear map, or some of its rows, and return whether it has a bias."""
    weight, bias = linear_weight(module), linear_bias(module)
    assert weight is not None
    tensors[f"{name}.weight"] = weight[of]
    if bias is not None:
        tensors[f"{name}.bias"] = bias[of]
    return bias is not None
