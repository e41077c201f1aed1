"""Spreads experts over processes: whole experts, parts of each, or both.

Shape letters: N rows (a token for one expert), E experts, P expert-parallel processes, D features.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from areal.api.errors import ConfigError
from areal.experimental.models.archon.moe.experts import GroupedExperts
from areal.experimental.models.archon.moe.moe import MoE, TokenExchange
from areal.experimental.models.archon.moe.utils import TokenReorderer
from areal.experimental.models.archon.parallel.collectives import (
    gather_along,
    scatter_sum,
    sum_gradients,
)
from areal.experimental.models.archon.parallel.styles import Colwise, Rowwise

_WIDTH = {"w1": Shard(1), "w2": Shard(2), "w3": Shard(1), "b1": Shard(1), "b3": Shard(1)}
"""Where an expert's width is in its tensors; its output bias has none."""


class ExpertParallel(ParallelStyle):
    """Gives each process whole experts, and sends it the tokens that chose them."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._distribute(module, device_mesh, lambda _: [Shard(0)])
        _exchange_rows(module, device_mesh.get_group())
        return module

    def _distribute(self, module: nn.Module, mesh: DeviceMesh, placements: Any) -> None:
        for name, parameter in list(module.named_parameters(recurse=False)):
            whole = distribute_tensor(
                parameter, mesh, placements(name), src_data_rank=self.src_data_rank
            )
            module._parameters[name] = nn.Parameter(whole, parameter.requires_grad)
        module.local = _local_part


class TensorParallel(ExpertParallel):
    """Gives each process a part of every expert's width; outputs are parts that add up."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._distribute(module, device_mesh, lambda name: [_WIDTH.get(name, Replicate())])
        module.share = 1 / device_mesh.size()
        return module


class ExpertTensorParallel(ExpertParallel):
    """Does both, on a mesh of two dimensions: experts first, then their width."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def placements(name: str) -> list[Placement]:
            return [Shard(0), _WIDTH.get(name, Replicate())]

        self._distribute(module, device_mesh, placements)
        _exchange_rows(module, device_mesh.get_group(0))
        module.share = 1 / device_mesh.size(1)
        return module


class ReordererSequenceParallel(ParallelStyle):
    """Lets each process sort its slice of the tokens only, where all of them hold every token.

    The layer's output is then a part of the sum over the processes.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, TokenReorderer)
        rank, size = device_mesh.get_local_rank(), device_mesh.size()

        def before(_: nn.Module, args: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            if len(args[0]) % size:
                raise ConfigError(f"{len(args[0])} tokens do not divide over {size} processes")
            scores_TK, chosen_TK = (a.chunk(size)[rank] for a in args)
            return scores_TK, chosen_TK

        def after(_: nn.Module, args: Any, out: tuple[Tensor, Tensor, Tensor]) -> Any:
            scores_N, order_N, counts_E = out
            return scores_N, order_N + rank * order_N.numel(), counts_E

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


def apply_moe_ep_tp(
    model: nn.Module,
    tp_mesh: DeviceMesh | None = None,
    ep_mesh: DeviceMesh | None = None,
    ep_tp_mesh: DeviceMesh | None = None,
) -> None:
    """Spread the experts of every layer that has some.

    Args:
        model: Has ``layers``, some with a ``moe``.
        tp_mesh: Of tensor parallelism; activations are then slices of the tokens.
        ep_mesh: Of expert parallelism.
        ep_tp_mesh: Of both, where each expert's width is split too.

    Raises:
        ConfigError: Experts or widths do not divide over the processes.
    """
    for block in model.layers.values():
        moe = getattr(block, "moe", None)
        if moe is not None:
            apply_expert_parallel(moe, tp_mesh, ep_mesh, ep_tp_mesh)


def apply_expert_parallel(
    moe: MoE,
    tp_mesh: DeviceMesh | None = None,
    ep_mesh: DeviceMesh | None = None,
    ep_tp_mesh: DeviceMesh | None = None,
) -> None:
    """Spread one layer's experts, as ``apply_moe_ep_tp`` does for all.

    With expert parallelism alone, tensor-parallel processes route their own slices of the tokens,
    and only the experts differ between them. Where the width is split, all tokens are gathered
    first.
    """
    _check_sizes(moe, tp_mesh, ep_mesh, ep_tp_mesh)
    style, mesh = _style_of(tp_mesh, ep_mesh, ep_tp_mesh)
    if style is None or mesh is None:
        return
    parallelize_module(moe.experts, mesh, style)
    if isinstance(style, (TensorParallel, ExpertTensorParallel)):
        assert tp_mesh is not None
        moe.exchange = _TensorParallelExchange(tp_mesh.get_group())
        if moe.shared_experts is not None:
            plan = {"w1": Colwise(), "w2": Rowwise(sums_output=False)}
            if moe.args.gated:
                plan["w3"] = Colwise()
            parallelize_module(moe.shared_experts, tp_mesh, plan)


def _style_of(
    tp_mesh: DeviceMesh | None, ep_mesh: DeviceMesh | None, ep_tp_mesh: DeviceMesh | None
) -> tuple[ParallelStyle | None, DeviceMesh | None]:
    if ep_tp_mesh is not None:
        return ExpertTensorParallel(), ep_tp_mesh
    if ep_mesh is not None:
        return ExpertParallel(), ep_mesh
    return (None, None) if tp_mesh is None else (TensorParallel(), tp_mesh)


def _check_sizes(
    moe: MoE,
    tp_mesh: DeviceMesh | None,
    ep_mesh: DeviceMesh | None,
    ep_tp_mesh: DeviceMesh | None,
) -> None:
    _, hidden_dim, _ = moe.experts.w1.shape
    ep = ep_tp_mesh.size(0) if ep_tp_mesh is not None else 1 if ep_mesh is None else ep_mesh.size()
    if moe.experts.num_experts % ep:
        raise ConfigError(f"{moe.experts.num_experts} experts do not divide over ep={ep}")
    if tp_mesh is None or (ep_mesh is not None and ep_tp_mesh is None):
        return
    widths = {"an expert's": hidden_dim}
    if moe.shared_experts is not None:
        widths["the shared experts'"] = moe.shared_experts.w1.weight.shape[0]
    for whose, width in widths.items():
        if width % tp_mesh.size():
            raise ConfigError(f"{whose} width {width} does not divide over tp={tp_mesh.size()}")


class _TensorParallelExchange(TokenExchange):
    """Gathers the slices of tokens, and adds up parts of the output and scatters them again."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.share = 1 / group.size()

    def gather(self, x: Tensor) -> Tensor:
        return gather_along(x, -2, self.group)

    def reduce(self, out: Tensor) -> Tensor:
        return scatter_sum(out, -2, self.group)


def _local_part(parameter: Tensor) -> Tensor:
    """Return this process's part; what several processes hold sums its gradient over them."""
    if not isinstance(parameter, DTensor):
        return parameter
    local = parameter.to_local()
    for axis, placement in enumerate(parameter.placements):
        if placement.is_replicate():
            local = sum_gradients(local, parameter.device_mesh.get_group(axis))
    return local


def _exchange_rows(experts: nn.Module, group: dist.ProcessGroup) -> None:
    """Send rows to the processes of their experts before the experts run, and back afterwards."""
    assert isinstance(experts, GroupedExperts)
    sent: list[_Sent] = []

    def before(_: nn.Module, args: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        rows, counts, how = _send(*args, group)
        sent.append(how)
        return rows, counts

    def after(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        return sent.pop().back(out)

    experts.register_forward_pre_hook(before)
    experts.register_forward_hook(after)


class _Sent:
    """Remembers how rows were sent, to send them back.

    Args:
        group: Of expert parallelism.
        given: Rows that go to each process.
        taken: Rows that come from each process.
        order: Place of each received row among those sorted by expert.
        rows: All rows there were, those of no expert included.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        given: list[int],
        taken: list[int],
        order: Tensor,
        rows: int,
    ) -> None:
        self.group = group
        self.given = given
        self.taken = taken
        self.order = order
        self.rows = rows

    def back(self, out_ND: Tensor) -> Tensor:
        """Return the experts' outputs to the processes their tokens came from."""
        out_ND = torch.zeros_like(out_ND).index_copy(0, self.order, out_ND)
        out_ND = _AllToAll.apply(out_ND, self.given, self.taken, self.group.group_name)
        missing = self.rows - out_ND.shape[0]
        return nn.functional.pad(out_ND, (0, 0, 0, missing)) if missing else out_ND


def _send(x_ND: Tensor, counts_E: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, Tensor, _Sent]:
    """Send each row to the process that has its expert, and sort what comes by expert.

    The numbers of rows have to be known on the host to size the exchange: the one place where a
    forward waits for the device.
    """
    size, name = group.size(), group.group_name
    even = [counts_E.numel() // size] * size
    counts_PE = _all_to_all(counts_E, even, even, name).unflatten(0, (size, -1))
    totals = torch.stack([counts_E.unflatten(0, (size, -1)).sum(1), counts_PE.sum(1)])
    given, taken = totals.tolist()
    rows = _AllToAll.apply(x_ND[: sum(given)], taken, given, name)
    experts = torch.arange(counts_PE.shape[1], device=x_ND.device).repeat(size)
    expert_N = experts.repeat_interleave(counts_PE.flatten(), output_size=sum(taken))
    order_N = torch.argsort(expert_N, stable=True)
    how = _Sent(group, given, taken, order_N, x_ND.shape[0])
    return rows.index_select(0, order_N), counts_PE.sum(0), how


def _all_to_all(x: Tensor, taken: list[int], given: list[int], name: str) -> Tensor:
    ops = torch.ops._c10d_functional
    return ops.wait_tensor(ops.all_to_all_single(x.contiguous(), taken, given, name))


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, taken: list[int], given: list[int], name: str) -> Tensor:
        ctx.how = given, taken, name
        return _all_to_all(x, taken, given, name)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _all_to_all(grads[0], *ctx.how), None, None, None
