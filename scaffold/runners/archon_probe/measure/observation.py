"""The record that measuring one model fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class Observation:
    """What was found of a model.

    Args:
        embedding: Features of what comes before the layers.
        head: Of what comes after them.
        layers: Of each layer: ``steps`` and ``modules`` by their Archon names.
        tensors: Archon parameter name -> value.
        paths: Archon module name -> Hugging Face module path.
    """

    embedding: dict[str, Any]
    head: dict[str, Any]
    layers: list[dict[str, Any]]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
