"""Applies context parallelism to a model."""

from __future__ import annotations

import torch.distributed as dist
from torch import nn


def apply_cp(model: nn.Module, cp_group: dist.ProcessGroup) -> None:
    """Let a model exchange tokens for heads with the processes of a group where it attends.

    The model then takes this process's slice of tokens and positions, and the ``cu_seqlens`` of
    the whole row.
    """
    for module in model.modules():
        # Attention, and rotary tables whose angles depend on where a token's sequence ends.
        if hasattr(module, "set_cp_group"):
            module.set_cp_group(cp_group)
