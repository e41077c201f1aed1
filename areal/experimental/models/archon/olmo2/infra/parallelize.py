"""Olmo2 across processes."""

from __future__ import annotations

from typing import Any

from torch import nn

from areal.experimental.models.archon.parallel import Colwise, ProjectionNorm, Region, Rowwise
from areal.experimental.models.archon.parallel.decoder import parallelize_decoder
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims

# What is split over tensor parallelism in a block; everything else is replicated.
TP_PLAN = {
    "attention": Region(),
    "attention.wq": Colwise(),
    "attention.wk": Colwise(),
    "attention.wv": Colwise(),
    "attention.q_norm": ProjectionNorm(),
    "attention.k_norm": ProjectionNorm(),
    "attention.wo": Rowwise(),
    "feed_forward": Region(),
    "feed_forward.w1": Colwise(),
    "feed_forward.w3": Colwise(),
    "feed_forward.w2": Rowwise(),
}


def parallelize_olmo2(
    model: nn.Module, parallel_dims: ArchonParallelDims, **options: Any
) -> nn.Module:
    """Split a ``Olmo2Model`` in place; ``parallelize_decoder`` has the options."""
    return parallelize_decoder(model, parallel_dims, TP_PLAN, **options)
