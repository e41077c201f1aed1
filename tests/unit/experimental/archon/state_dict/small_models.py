"""Models that have any given parameters, their adapters, and checkpoints of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import Qwen3Config

from areal.experimental.models.archon import state_dict
from areal.experimental.models.archon.state_dict import RuleAdapter


@dataclass
class SmallArgs:
    """Holds the sizes that rules of the tests ask for."""

    n_heads: int = 6
    n_kv_heads: int = 2
    is_critic: bool = False
    enable_weight_tying: bool = False


def module_of(shapes: Mapping[str, Sequence[int]]) -> nn.Module:
    """Returns a module whose parameters have these dotted names."""
    root = nn.Module()
    for name, shape in shapes.items():
        *path, leaf = name.split(".")
        owner = root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner._modules[part]
        owner.register_parameter(leaf, nn.Parameter(torch.zeros(*shape)))
    return root


def adapter_of(
    rules: Sequence[Any], shapes: Mapping[str, Sequence[int]], args: Any = None
) -> RuleAdapter:
    """Returns an adapter of a model with these parameters."""

    class Adapter(RuleAdapter):
        RULES = tuple(rules)
        model_class = staticmethod(lambda args: module_of(shapes))
        # The sizes are the configuration.
        model_args_class = SimpleNamespace(from_hf_config=lambda config, **_: config)

    return Adapter(args or SmallArgs())


def as_objects(rules: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Returns the rule objects that rules found by values stand for."""
    fields = ("hub", "archon", "source", "groups", "axis", "transposed", "shape", "order", "when")
    return [
        getattr(state_dict, rule["rule"])(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in rule.items() if k in fields}
        )
        for rule in rules
    ]


def tiny_qwen3(**changes: Any) -> Qwen3Config:
    """Returns the configuration of a Qwen3 of two layers."""
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "vocab_size": 64,
    }
    return Qwen3Config(**(sizes | changes))


def random_tensors(shapes: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, Tensor]:
    """Returns random tensors of these shapes."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def hub_shapes(adapter: RuleAdapter) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor that a checkpoint of the adapter's model has."""
    return {name: tensor.shape for name, tensor in adapter.plan.required.items()}


def write_shards(folder: Path, tensors: Mapping[str, Tensor], num_shards: int = 3) -> None:
    """Writes a checkpoint in several files with an index."""
    names = list(tensors)
    weight_map = {}
    for number in range(num_shards):
        file = f"model-{number + 1:05d}-of-{num_shards:05d}.safetensors"
        mine = names[number::num_shards]
        save_file({name: tensors[name].contiguous() for name in mine}, folder / file)
        weight_map |= dict.fromkeys(mine, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
