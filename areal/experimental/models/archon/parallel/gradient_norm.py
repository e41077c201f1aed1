"""Norm and clipping of gradients whose parts lie on several meshes and pipeline stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from areal.experimental.models.archon.parallel.tie import is_copy


@torch.no_grad()
def clip_grad_norm(
    parameters: Iterable[nn.Parameter],
    max_norm: float,
    pp_group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Scale the gradients of a whole model to a largest norm.

    ``torch.nn.utils.clip_grad_norm_`` takes tensors of one mesh, and experts have another one.

    Args:
        parameters: Of all parts of the model that this process has.
        max_norm: Largest Euclidean norm.
        pp_group: Processes of the pipeline, where there is one; they have other parameters.

    Returns:
        The norm before, the same on every process.
    """
    groups = _by_mesh(parameters)
    # What two stages have is counted once, and scaled on both.
    counted = [[p for p in group if not is_copy(p)] for group in groups]
    squares = [_square(group) for group in counted if group]
    squares = torch.stack(squares or [torch.zeros(())]).sum()
    if pp_group is not None:
        dist.all_reduce(squares, group=pp_group)
    norm = squares.sqrt()
    for group in groups:
        torch.nn.utils.clip_grads_with_norm_(group, max_norm, norm)
    return norm


def _by_mesh(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    groups: dict[DeviceMesh | None, list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None:
            mesh = gradient.device_mesh if isinstance(gradient, DTensor) else None
            groups[mesh].append(parameter)
    return list(groups.values())


def _square(group: list[nn.Parameter]) -> Tensor:
    norm = torch.nn.utils.get_total_norm([p.grad for p in group if p.grad is not None])
    norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
    return norm.float().square()
