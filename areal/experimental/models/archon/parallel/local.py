"""Parameters that are DTensors where they are kept, and plain tensors where they are used.

Checkpoints, FSDP2 and optimisers see DTensors; a module's forward sees this process's part, so that
its code is the same with and without tensor parallelism and no operation is dispatched twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor

from areal.experimental.models.archon.parallel.collectives import Peers, sum_gradients

_classes: dict[tuple[type, tuple[str, ...], Peers], type] = {}


def distribute_parameters(
    module: nn.Module,
    mesh: DeviceMesh,
    placements: dict[str, Placement],
    src_data_rank: int | None = 0,
    only_named: bool = False,
) -> None:
    """Make a module's own parameters DTensors that its forward sees as local tensors.

    Args:
        module: Whose parameters, without those of its children.
        mesh: The one-dimensional mesh of tensor parallelism.
        placements: Of each parameter; one that is not named is replicated, and its gradient is the
            sum over the mesh.
        src_data_rank: Whose values are distributed; None takes each process's own.
        only_named: Leaves a parameter that is not named as it is: its gradient is whole already.
    """
    own = {
        name: p
        for name, p in module.named_parameters(recurse=False)
        if not isinstance(p, DTensor) and (name in placements or not only_named)
    }
    for name, parameter in own.items():
        placement = placements.get(name, Replicate())
        whole = distribute_tensor(parameter, mesh, [placement], src_data_rank=src_data_rank)
        module._parameters[name] = nn.Parameter(whole, requires_grad=parameter.requires_grad)
    if own:
        see_local(module, mesh, tuple(own))


def see_local(
    module: nn.Module,
    mesh: DeviceMesh,
    names: tuple[str, ...] = (),
    forward: Callable[..., Any] | None = None,
) -> None:
    """Give a module a class in whose forward these parameters read as local tensors.

    Outside of the forward they read as DTensors, which is what initialisation and FSDP2 want.

    Args:
        module: Changed in place; its class keeps its name.
        mesh: Of tensor parallelism.
        names: Of its own parameters.
        forward: Replaces the forward, where the local computation differs.
    """
    cls, peers = type(module), Peers.of(mesh.get_group())
    if forward is not None:
        module.__class__ = _make_class(cls, names, peers, forward)
        return
    # Modules of one kind share a class, so that the code compiled for one block serves all.
    key = (cls, names, peers)
    if key not in _classes:
        _classes[key] = _make_class(cls, names, peers, cls.forward)
    module.__class__ = _classes[key]


def _make_class(cls: type, names: tuple[str, ...], peers: Peers, inner: Callable[..., Any]) -> type:
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        before, self._reads_local = self._reads_local, True
        try:
            return inner(self, *args, **kwargs)
        finally:
            self._reads_local = before

    members: dict[str, Any] = {name: _local_view(name, peers) for name in names}
    return type(cls.__name__, (cls,), {**members, "forward": forward, "_reads_local": False})


def _local_view(name: str, peers: Peers) -> property:
    def read(self: nn.Module) -> Tensor | None:
        parameter = self._parameters[name]
        return _local(parameter, peers) if self._reads_local else parameter

    return property(read)


def _local(parameter: Tensor | None, peers: Peers) -> Tensor | None:
    """Return this process's part; a replicated parameter's gradient will be summed."""
    if not isinstance(parameter, DTensor):
        return parameter
    local = parameter.to_local()
    if parameter.placements[0].is_replicate() and parameter.requires_grad:
        return sum_gradients(local, peers)
    return local
