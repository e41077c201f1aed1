"""What every process of the parallel test does: run layers spread over processes, and compare.

Every layer is compared with itself on one process: output, gradient of the input, and the gradient
of every parameter, each relative to its own norm.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.multiprocessing import start_processes

from areal.experimental.models.archon.expert_parallel import (
    ReordererSequenceParallel,
    apply_moe_ep_tp,
)
from areal.experimental.models.archon.moe import MoE, MoEArgs
from areal.experimental.models.archon.parallel.tensor import replicate_rest

DIM, HIDDEN, TOKENS = 16, 24, 32
LAYERS = {
    "plain": MoEArgs(num_experts=8, top_k=3, route_norm=True),
    "shared": MoEArgs(
        num_experts=8,
        top_k=2,
        score_func="sigmoid",
        use_expert_bias=True,
        num_shared_experts=2,
        use_shared_expert_gate=True,
        post_norm_eps=1e-5,
    ),
    "no gates": MoEArgs(
        num_experts=8,
        top_k=2,
        activation="relu2",
        gated=False,
        num_shared_experts=1,
        expert_bias_terms=True,
    ),
    "biases": MoEArgs(num_experts=4, top_k=2, expert_bias_terms=True, router_bias=True),
    "zero": MoEArgs(num_experts=4, top_k=3, num_zero_experts=2, router_dtype="float32"),
    # All tokens go to one expert: the other processes have none.
    "idle": MoEArgs(num_experts=8, top_k=1, score_before_experts=True, use_expert_bias=True),
}
TOLERANCE = 2e-6  # fp32, sums in another order


class Model(nn.Module):
    """Holds one layer where ``apply_moe_ep_tp`` looks for it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        args = LAYERS[name]
        torch.manual_seed(0)
        moe = MoE(args, DIM, HIDDEN)
        moe.init_weights(0.3, "cpu")
        if args.use_expert_bias:
            moe.expert_bias[0] = 5.0 if name == "idle" else 0.1
        for parameter in moe.experts.parameters():
            nn.init.normal_(parameter, std=0.3)
        self.layers = nn.ModuleDict({"0": nn.ModuleDict({"moe": moe})})
        self.layers["0"].moe = moe

    @property
    def moe(self) -> MoE:
        return self.layers["0"]["moe"]


def tokens() -> tuple[Tensor, Tensor]:
    """Returns the layer's input and the gradient of its output, the same on every process."""
    generator = torch.Generator().manual_seed(1)
    x, g = torch.randn(2, 1, TOKENS, DIM, generator=generator)
    return x, g


def whole(tensor: Tensor) -> Tensor:
    """Returns a tensor in full."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def check(
    name: str,
    spread: Callable[[Model], None],
    group: dist.ProcessGroup,
    is_summed: Callable[[str], bool],
) -> None:
    """Compares a spread layer with the layer on one process.

    Args:
        name: Of the layer.
        spread: Spreads it.
        group: Its processes hold slices of the tokens, in their order.
        is_summed: Whether a parameter's gradient, given its name, is a part on each process.
    """
    alone = Model(name)
    other = copy.deepcopy(alone)
    spread(other)
    x, g = tokens()
    x_alone = x.clone().requires_grad_()
    expected = alone.moe(x_alone)
    expected.backward(g)
    rank, size = group.rank(), group.size()
    mine = slice(rank * TOKENS // size, (rank + 1) * TOKENS // size)
    x_mine = x[:, mine].clone().requires_grad_()
    out = other.moe(x_mine)
    out.backward(g[:, mine])
    assert x_alone.grad is not None
    assert x_mine.grad is not None
    close(out, expected[:, mine], f"{name}: output")
    close(x_mine.grad, x_alone.grad[:, mine], f"{name}: input's gradient")
    gradients = {n: p.grad for n, p in other.named_parameters()}
    for parameter, value in alone.named_parameters():
        found = gradients[parameter]
        if value.grad is None:
            assert found is None
            continue
        assert found is not None, parameter
        total = whole(found).clone()
        if is_summed(parameter):
            dist.all_reduce(total, group=group)
        close(total, value.grad, f"{name}: gradient of {parameter}")


def close(found: Tensor, expected: Tensor, what: str) -> None:
    """Fails where two tensors differ by more than rounding."""
    error = float((found - expected).norm() / expected.norm().clamp_min(1e-6))
    assert error < TOLERANCE, f"{what} is off by {error:.2g}"


def is_outside(parameter: str) -> bool:
    """Tells the parameters that data-parallel processes hold in full, for which FSDP would sum."""
    return ".experts." not in parameter


def never(_parameter: str) -> bool:
    """Tells that no gradient is a part: tensor parallelism has summed all of them."""
    return False


def main(rank: int, size: int, folder: str) -> None:
    """Runs every way of this many processes."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store{size}", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    flat = init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
    for name in LAYERS:
        _check_expert_parallel(name, flat)
        _check_tensor_parallel(name, flat)
        _check_slices_of_tokens(name, flat)
        if size == 4:
            _check_both(name)
    _check_reorderer(flat)
    dist.barrier()
    if rank == 0:
        Path(folder, f"passed{size}").touch()
    dist.destroy_process_group()


def _check_expert_parallel(name: str, mesh: DeviceMesh) -> None:
    """Data-parallel processes have tokens of their own and share the experts."""
    check(name, lambda m: apply_moe_ep_tp(m, ep_mesh=mesh), mesh.get_group(), is_outside)


def _check_tensor_parallel(name: str, mesh: DeviceMesh) -> None:
    def spread(model: Model) -> None:
        apply_moe_ep_tp(model, tp_mesh=mesh)
        replicate_rest(model, mesh)

    check(name, spread, mesh.get_group(), never)


def _check_slices_of_tokens(name: str, mesh: DeviceMesh) -> None:
    """Tensor-parallel processes share whole experts: none of them sees all tokens."""

    def spread(model: Model) -> None:
        apply_moe_ep_tp(model, tp_mesh=mesh, ep_mesh=mesh)
        replicate_rest(model, mesh)

    check(name, spread, mesh.get_group(), never)


def _check_both(name: str) -> None:
    """Two halves of the experts, each split in width; both pairs have the same tokens."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("ep", "tp"))
    tp = mesh["tp"]

    def spread(model: Model) -> None:
        apply_moe_ep_tp(model, tp_mesh=tp, ep_mesh=mesh["ep"], ep_tp_mesh=mesh)
        replicate_rest(model, tp)
        for parameter_name, parameter in model.named_parameters():
            if ".experts." in parameter_name:
                # Both halves of the data are the same here: each expert sees its tokens twice.
                parameter.register_hook(lambda gradient: gradient / 2)

    check(name, spread, tp.get_group(), never)


def _check_reorderer(mesh: DeviceMesh) -> None:
    """Every process has all tokens, sorts its slice, and the outputs add up."""
    model = Model("plain")
    x, _ = tokens()
    expected = model.moe(x)
    style = ReordererSequenceParallel()
    style._apply(model.moe.reorderer, mesh)
    out = model.moe(x).detach()
    dist.all_reduce(out)
    close(out, expected, "sum of the slices")


if __name__ == "__main__":
    processes = int(sys.argv[2])
    start_processes(main, (processes, sys.argv[1]), processes, start_method="spawn")
