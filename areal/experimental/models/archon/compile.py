"""Compiles a model block by block."""

from __future__ import annotations

from typing import Any

from torch import nn


def apply_compile(model: nn.Module, **options: Any) -> None:
    """Compile every block in place: blocks are alike, so the first one's code serves all.

    Parameter names stay as they are. What is outside of the blocks is not compiled.

    Args:
        model: Has ``layers``.
        options: For ``torch.compile``.
    """
    for block in model.layers.values():
        block.compile(**options)
