"""Where a process is among those that train one model, and the groups that follow."""

from __future__ import annotations

import torch.distributed as dist

from areal.api.alloc_mode import ParallelStrategy
from areal.engine.processes import patient_group
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


class Place:
    """The process groups of an engine; all processes make theirs together.

    Args:
        split: In how many parts each axis is split.
        device_type: Device of the processes.

    Attributes:
        dims: The meshes.
        data_group: Processes that see other data.
        model_group: Processes that see the same data, this one among them.
        cpu_group: All processes, over gloo.

    Raises:
        ConfigError: The sizes of the axes do not fit together.
    """

    def __init__(self, split: ParallelStrategy, device_type: str) -> None:
        self.dims = ArchonParallelDims(
            dp_shard=split.dp_size,
            cp=split.cp_size,
            tp=split.tp_size,
            pp=split.pp_size,
            ep=split.ep_size,
            etp=split.etp_size,
            world_size=split.world_size,
            device_type=device_type,
        )
        self.data_group = _required(self.dims.get_group("dp"))
        # Every process takes part in making the groups of one, where no axis splits the model.
        alone = dist.new_subgroups(1)[0]
        self.model_group = self.dims.get_group("pp_cp_tp") or _required(alone)
        self.cpu_group = patient_group()

    @property
    def head(self) -> int:
        """The global rank that speaks for the processes of ``model_group``."""
        return dist.get_process_group_ranks(self.model_group)[0]


def _required(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    assert group is not None
    return group
