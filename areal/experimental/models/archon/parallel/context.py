"""Applies context parallelism to a model."""

from __future__ import annotations

import torch.distributed as dist
from torch import nn

from areal.experimental.models.archon.attention import AttentionCore


def apply_cp(model: nn.Module, cp_group: dist.ProcessGroup) -> None:
    """Lets every attention of a model exchange tokens for heads with the processes of a group.

    The model then takes this process's slice of tokens and positions, and the ``cu_seqlens`` of
    the whole row.
    """
    for module in model.modules():
        if isinstance(module, AttentionCore):
            module.set_cp_group(cp_group)
