"""ModernBert across processes."""

from __future__ import annotations

from typing import Any

from torch import nn

from areal.experimental.models.archon.parallel.decoder import parallelize_decoder
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


def parallelize_modernbert(
    model: nn.Module, parallel_dims: ArchonParallelDims, **options: Any
) -> nn.Module:
    """Split a ``ModernBertModel`` in place; ``parallelize_decoder`` has the options."""
    return parallelize_decoder(model, parallel_dims, {}, **options)
