"""EveryThing across processes."""

from __future__ import annotations

from typing import Any

from torch import nn

from areal.experimental.models.archon.parallel import (
    Colwise,
    PerHead,
    ProjectionNorm,
    Region,
    Rowwise,
)
from areal.experimental.models.archon.parallel.decoder import parallelize_decoder
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims

# What is split over tensor parallelism in a block; everything else is replicated.
TP_PLAN = {
    "attention": Region(per_head=("sinks",)),
    "attention.wq": Colwise(),
    "attention.wk": Colwise(),
    "attention.wv": Colwise(),
    "attention.q_norm": PerHead(),
    "attention.k_norm": PerHead(),
    "attention.gate": Colwise(),
    "attention.out_norm": ProjectionNorm(),
    "attention.wo": Rowwise(),
    "attention_2": Region(per_head=("sinks",)),
    "attention_2.wq": Colwise(),
    "attention_2.wk": Colwise(),
    "attention_2.wv": Colwise(),
    "attention_2.q_norm": PerHead(),
    "attention_2.k_norm": PerHead(),
    "attention_2.gate": Colwise(),
    "attention_2.out_norm": ProjectionNorm(),
    "attention_2.wo": Rowwise(),
    "feed_forward": Region(),
    "feed_forward.w1": Colwise(),
    "feed_forward.inner_norm": ProjectionNorm(),
    "feed_forward.w2": Rowwise(),
}


def parallelize_every_thing(
    model: nn.Module, parallel_dims: ArchonParallelDims, **options: Any
) -> nn.Module:
    """Split a ``EveryThingModel`` in place; ``parallelize_decoder`` has the options."""
    return parallelize_decoder(model, parallel_dims, TP_PLAN, **options)
