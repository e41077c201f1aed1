"""Which meshes the experts of a model are spread over."""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh

from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


def expert_meshes(
    parallel_dims: ArchonParallelDims,
) -> tuple[DeviceMesh | None, DeviceMesh | None, DeviceMesh | None]:
    """Return the meshes of tensor parallelism, of experts, and of both where widths are split."""
    dims = parallel_dims
    tp = dims.get_mesh("tp") if dims.tp_enabled else None
    ep = dims.get_mesh("ep") if dims.ep_enabled else None
    return tp, ep, dims.get_mesh("ep_tp") if dims.etp_enabled else None
