"""A port that is transformers itself, right by definition, and ways to spoil it."""

from __future__ import annotations

import copy
import itertools
from types import SimpleNamespace
from typing import Any

import torch
from archon_probe.measure.random_weights import build_model
from torch import Tensor, nn

from areal.api.errors import ConfigError


class PortArgs:
    """Holds the config; refuses ties."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    def from_hf_config(cls, hf_config: Any) -> PortArgs:
        if hf_config.tie_word_embeddings:
            raise ConfigError("this port has no ties")
        return cls(copy.deepcopy(hf_config))


class Port(nn.Module):
    """Runs transformers on each sequence of a packed batch."""

    def __init__(self, args: PortArgs) -> None:
        super().__init__()
        self.hf = build_model(args.config)

    def init_buffers(self, device: Any) -> None:
        """Has none to compute."""

    def forward(
        self, tokens: Tensor, positions: Tensor, cu_seqlens: Tensor, max_seqlen: int
    ) -> Tensor:
        ends = cu_seqlens.tolist()
        rows = [tokens[:, a:b] for a, b in itertools.pairwise(ends)]
        return torch.cat([self.hf(input_ids=r, use_cache=False).logits for r in rows], dim=1)


class PortAdapter:
    """Puts a prefix before every name."""

    def __init__(self, model_config: Any) -> None:
        self.model_config = model_config

    def from_hf(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"hf.{name}": tensor for name, tensor in state.items()}

    def to_hf(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name.removeprefix("hf."): tensor for name, tensor in state.items()}

    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        return list(self.to_hf({name: tensor}).items())


def port(**parts: Any) -> Any:
    """Returns the spec of a port, some parts of it replaced."""
    whole = {
        "model_class": Port,
        "model_args_class": PortArgs,
        "state_dict_adapter_class": PortAdapter,
    }
    return SimpleNamespace(**{**whole, **parts})
