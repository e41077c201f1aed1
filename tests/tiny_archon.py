"""Tiny Archon models with the weights of tiny Hugging Face models."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.cli_args import ArchonEngineConfig
from areal.engine.loading.archon import build_archon_model, prepare_archon_model
from areal.engine.model.archon import ArchonCausalLM
from areal.experimental.models.archon import get_supported_model_types
from tests.tiny_models import tiny_model

BACKENDS = ("fsdp:d1", "archon:d1")


# Of these a Hugging Face model in memory has the names that its checkpoint has; experts are packed.
SAME_NAMES_IN_MEMORY = ("llama", "qwen2", "qwen3")


def known(*architectures: str) -> list[str]:
    """Returns those architectures that have an Archon model, and weights under one name."""
    models = get_supported_model_types()
    return [n for n in architectures if n in models and n in SAME_NAMES_IN_MEMORY]


def tiny_archon(
    architecture: str = "qwen3", seed: int = 0, attn_type: str = "varlen", **options: Any
) -> ArchonCausalLM:
    """Makes the Archon model of what ``tiny_model`` makes of the same arguments."""
    return archon_of(tiny_model(architecture, seed, **options), attn_type)


def archon_of(model: Any, attn_type: str = "varlen") -> ArchonCausalLM:
    """Makes the Archon model of a Hugging Face model, with a copy of its weights."""
    config = copy.deepcopy(model.config)
    dtype = next(model.parameters()).dtype
    options = ArchonEngineConfig(attn_type=attn_type)
    lm = build_archon_model(config, dtype, torch.device("cpu"), options, "a test")
    load_state(lm, model)
    return prepare_archon_model(lm)


def load_state(lm: ArchonCausalLM, model: nn.Module) -> None:
    """Copies the weights of a Hugging Face model."""
    state = lm.module.state_dict()
    with torch.no_grad():
        for name, tensor in lm.adapter.from_hf(dict(model.state_dict())).items():
            state[name].copy_(tensor)


def named_gradients(lm: Any) -> dict[str, Tensor]:
    """Returns the gradient of each parameter under its name in a Hugging Face model."""
    module: nn.Module = lm.module
    grads = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    if not isinstance(lm, ArchonCausalLM):
        return grads
    whole = {n: torch.zeros_like(t) for n, t in module.state_dict().items()}
    return lm.adapter.to_hf(whole | grads)
