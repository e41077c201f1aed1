"""What the ``parallelize_<model>`` functions are made of."""

from areal.experimental.models.archon.parallel.context import apply_cp
from areal.experimental.models.archon.parallel.experts import expert_meshes
from areal.experimental.models.archon.parallel.fsdp import apply_fsdp
from areal.experimental.models.archon.parallel.gradient_norm import clip_grad_norm
from areal.experimental.models.archon.parallel.styles import (
    AllTokens,
    Colwise,
    OwnTokens,
    PerHead,
    ProjectionNorm,
    Region,
    Replicated,
    Rowwise,
    ScoreHead,
    SharedHeads,
    VocabEmbedding,
    VocabHead,
)
from areal.experimental.models.archon.parallel.tensor import apply_tp, replicate_rest
from areal.experimental.models.archon.parallel.tie import is_tied, retie, sum_tied_gradients

__all__ = [
    "AllTokens",
    "Colwise",
    "OwnTokens",
    "PerHead",
    "ProjectionNorm",
    "Region",
    "Replicated",
    "Rowwise",
    "ScoreHead",
    "SharedHeads",
    "VocabEmbedding",
    "VocabHead",
    "apply_cp",
    "apply_fsdp",
    "apply_tp",
    "clip_grad_norm",
    "expert_meshes",
    "is_tied",
    "replicate_rest",
    "retie",
    "sum_tied_gradients",
]
