"""Weights of Archon models on disk: safetensors under the names of the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from areal.engine.checkpoint import read_tensors


def write_weights(module: nn.Module, adapter: Any, folder: Path) -> None:
    """Writes all weights of a model into a folder."""
    tensors = adapter.to_hf(module.state_dict())
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )


def copy_weights(module: nn.Module, adapter: Any, folder: str | Path) -> None:
    """Copies the weights of a checkpoint folder into a model in place."""
    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in adapter.from_hf(read_tensors(Path(folder))).items():
            state[name].copy_(tensor)
