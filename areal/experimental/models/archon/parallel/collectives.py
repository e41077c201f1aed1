"""Collectives with the gradients that tensor parallelism needs, on plain tensors.

One rule holds between a model's embedding and its head: the gradient of any activation is a part,
and the parts of all processes sum to the whole. So each function's backward here is its adjoint,
and a parameter that every process holds in full sums its gradient over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from areal.api.errors import ConfigError

_ops = torch.ops._c10d_functional


@dataclass(frozen=True)
class Peers:
    """A group of processes named by plain values, which compiled code can hold as constants.

    A ``ProcessGroup`` serves wherever one of these is asked for, except in compiled blocks.
    """

    count: int
    place: int
    group_name: str

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> Peers:
        """Return the plain values of a group."""
        return cls(group.size(), group.rank(), group.group_name)

    def size(self) -> int:
        """Return how many processes there are."""
        return self.count

    def rank(self) -> int:
        """Return which of them this process is."""
        return self.place


Group = dist.ProcessGroup | Peers


def gather_along(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return every process's ``x`` end to end; backward sums the parts and scatters the sum."""
    return _GatherAlong.apply(x, dim % x.dim(), group.size(), group.group_name)


def scatter_sum(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return this process's slice of the sum of every process's ``x``; backward gathers.

    Raises:
        ConfigError: The dimension does not divide by the number of processes.
    """
    check_slices(x.shape[dim], group)
    return _ScatterSum.apply(x, dim % x.dim(), group.size(), group.group_name)


def sum_parts(x: Tensor, group: Group) -> Tensor:
    """Return the sum of every process's ``x`` where gradients are parts: backward sums too."""
    return _SumBoth.apply(x, group.group_name)


def sum_values(x: Tensor, group: Group) -> Tensor:
    """Return the sum of every process's ``x`` where gradients are whole: backward is identity."""
    return _SumForward.apply(x, group.group_name)


def sum_gradients(x: Tensor, group: Group) -> Tensor:
    """Return ``x``; backward sums the gradient over the processes."""
    return _SumBackward.apply(x, group.group_name)


def gather_values(x: Tensor, width: int, group: Group) -> Tensor:
    """Return every process's part of the last dimension end to end, where gradients are whole.

    Args:
        x: This process's part, as ``torch.chunk`` cuts ``width``.
        width: Of the whole; need not divide by the number of processes.
        group: The processes.
    """
    share = -(-width // group.size())
    own = max(min(share, width - share * group.rank()), 0)
    return _GatherValues.apply(x, width, share, own, group.rank(), group.size(), group.group_name)


def split_values(x: Tensor, group: Group) -> Tensor:
    """Return this process's part of the last dimension, where gradients are whole."""
    return _SplitValues.apply(x, group.rank(), group.size(), group.group_name)


def own_slice(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return this process's slice of what every process holds in full.

    Its gradient is zero outside of the slice: a part, as the rule wants.
    """
    check_slices(x.shape[dim], group)
    return x.chunk(group.size(), dim)[group.rank()]


def check_slices(size: int, group: Group) -> None:
    """Raise ConfigError where a dimension does not divide by the number of processes."""
    if size % group.size():
        raise ConfigError(
            f"{size} tokens or channels do not divide over {group.size()} tensor-parallel "
            "processes; pad packed rows to a multiple of ArchonParallelDims.seq_len_divisor"
        )


def _all_gather(x: Tensor, dim: int, size: int, name: str) -> Tensor:
    gathered = _ops.wait_tensor(_ops.all_gather_into_tensor(x.contiguous(), size, name))
    return gathered if dim == 0 else torch.cat(gathered.chunk(size), dim)


def _reduce_scatter(x: Tensor, dim: int, size: int, name: str) -> Tensor:
    stacked = x if dim == 0 else torch.cat(x.chunk(size, dim))
    return _ops.wait_tensor(_ops.reduce_scatter_tensor(stacked.contiguous(), "sum", size, name))


def _all_reduce(x: Tensor, name: str) -> Tensor:
    return _ops.wait_tensor(_ops.all_reduce(x.contiguous(), "sum", name))


def _gather_last(x: Tensor, width: int, share: int, size: int, name: str) -> Tensor:
    """Gather parts of which the last ones may be shorter, or empty."""
    padded = F.pad(x, (0, share - x.shape[-1]))
    return _all_gather(padded, padded.dim() - 1, size, name)[..., :width]


class _GatherValues(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, width: int, share: int, own: int, rank: int, size: int, name: str
    ) -> Tensor:
        ctx.cut = rank * share, own
        return _gather_last(x, width, share, size, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient.narrow(-1, *ctx.cut), *(None,) * 6


class _SplitValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rank: int, size: int, name: str) -> Tensor:
        width = x.shape[-1]
        share = -(-width // size)
        ctx.how = width, share, size, name
        first = min(rank * share, width)
        return x[..., first : first + share].contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _gather_last(gradient, *ctx.how), None, None, None


class _GatherAlong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, size: int, name: str) -> Tensor:
        ctx.how = dim, size, name
        return _all_gather(x, dim, size, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _reduce_scatter(gradient, *ctx.how), None, None, None


class _ScatterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, size: int, name: str) -> Tensor:
        ctx.how = dim, size, name
        return _reduce_scatter(x, dim, size, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _all_gather(gradient, *ctx.how), None, None, None


class _SumBoth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        ctx.name = name
        return _all_reduce(x, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _all_reduce(gradient, ctx.name), None


class _SumForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        return _all_reduce(x, name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient, None


class _SumBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        ctx.name = name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _all_reduce(gradient, ctx.name), None
