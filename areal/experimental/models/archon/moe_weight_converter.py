"""Turns one matrix per expert into one tensor for all, and back, as weights stream by.

The adapters of written models have rules of their own for whole checkpoints; this is for code that
sees one tensor at a time, such as a weight update that arrives in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from areal.api.errors import ConfigError

_EXPERT = re.compile(r"^(?P<head>.*\.mlp\.experts)\.(?P<expert>\d+)\.(?P<part>\w+)\.weight$")
_PARTS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
_NAMES = {mine: theirs for theirs, mine in _PARTS.items()}


@dataclass
class MoEConversionState:
    """The experts of a tensor that have arrived.

    Attributes:
        pending: For each tensor of Archon's, its experts by number.
    """

    pending: dict[str, dict[int, Tensor]] = field(default_factory=dict)

    def require_complete(self) -> None:
        """Return which experts are missing.

        Raises:
            ConfigError: Some tensor waits for experts.
        """
        if self.pending:
            found = {name: sorted(experts) for name, experts in self.pending.items()}
            raise ConfigError(f"experts are missing; of each tensor there are only {found}")


class MoEWeightConverter:
    """Stacks the experts of Hugging Face's layers into Archon's, and takes them apart.

    Args:
        num_experts: Of a layer.
    """

    def __init__(self, num_experts: int) -> None:
        self.num_experts = num_experts

    def add(
        self, name: str, tensor: Tensor, state: MoEConversionState
    ) -> tuple[str, Tensor] | None:
        """Take in one expert's matrix.

        Args:
            name: ``...layers.N.mlp.experts.E.{gate,up,down}_proj.weight``.
            tensor: [out, in].
            state: What has arrived before; a tensor that is complete leaves it.

        Returns:
            Archon's name and tensor [E, out, in] once all experts are there.

        Raises:
            ConfigError: The name is none of an expert, the expert is one too many or came before.
        """
        found = _EXPERT.match(name)
        if found is None or found["part"] not in _PARTS:
            raise ConfigError(
                f"{name!r} is not an expert's matrix; known parts: {', '.join(_PARTS)}"
            )
        expert = int(found["expert"])
        head = found["head"].removeprefix("model.").replace(".mlp.", ".moe.")
        target = f"{head}.{_PARTS[found['part']]}"
        experts = state.pending.setdefault(target, {})
        if expert >= self.num_experts or expert in experts:
            raise ConfigError(f"{name!r}: there are {self.num_experts} experts, each comes once")
        experts[expert] = tensor
        if len(experts) < self.num_experts:
            return None
        del state.pending[target]
        return target, torch.stack([experts[e] for e in range(self.num_experts)])

    def split(self, name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield each expert's name and matrix, views of the tensor.

        Args:
            name: ``layers.N.moe.experts.{w1,w2,w3}``.
            tensor: [E, out, in].

        Raises:
            ConfigError: The name is none of the experts' tensors.
        """
        head, _, part = name.rpartition(".")
        if part not in _NAMES or not head.endswith(".moe.experts"):
            raise ConfigError(f"{name!r} is not a tensor of experts; known: {', '.join(_NAMES)}")
        head = "model." + head.replace(".moe.", ".mlp.")
        for expert, matrix in enumerate(tensor.unbind(0)):
            yield f"{head}.{expert}.{_NAMES[part]}.weight", matrix
