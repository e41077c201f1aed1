"""Ulysses context parallelism: a slice of the tokens each, and in attention a slice of the heads.

Source: Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv:2309.14509, section 3.1.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from areal.api.errors import ConfigError


def ulysses_slice_inputs(
    inputs: dict[str, Tensor], labels: Tensor, cp_rank: int, cp_size: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Return this process's slice of the tokens; everything that is not per token is kept whole.

    Args:
        inputs: A model's inputs; ``input_ids`` and ``position_ids`` are [..., T].
        labels: [..., T].
        cp_rank: Which slice.
        cp_size: In how many slices T is cut.

    Raises:
        ConfigError: T does not divide by ``cp_size``.
    """
    sliced = dict(inputs)
    for name in ("input_ids", "position_ids"):
        if name in inputs:
            sliced[name] = _slice_last(inputs[name], cp_rank, cp_size, name)
    return sliced, _slice_last(labels, cp_rank, cp_size, "labels")


def ulysses_gather_output(output: Tensor, cp_group: dist.ProcessGroup, seq_dim: int = 0) -> Tensor:
    """Return the outputs for all tokens, on every process.

    Its backward sums what each process derived for a slice. So where every process computes the
    same loss from the gathered output, the mean of the gradients over the group is that loss's
    gradient: averaging over data and context alike needs no correction.

    Args:
        output: This process's slice, of equal size on every process.
        cp_group: The processes that share one row of tokens.
        seq_dim: The dimension of the tokens.
    """
    if cp_group.size() == 1:
        return output
    return _Gather.apply(output, seq_dim, cp_group)


def gather_seq_scatter_heads(
    x: Tensor, seq_dim: int, head_dim: int, group: dist.ProcessGroup
) -> Tensor:
    """Turn [part of the tokens, all heads] into [all tokens, part of the heads].

    Args:
        x: A tensor whose tokens are this process's slice.
        seq_dim: Its dimension of tokens.
        head_dim: Its dimension of heads; the group's size divides it.
        group: The processes that share one row of tokens.
    """
    return _exchange(x, scatter_dim=head_dim, gather_dim=seq_dim, group=group)


def gather_heads_scatter_seq(
    x: Tensor, head_dim: int, seq_dim: int, group: dist.ProcessGroup
) -> Tensor:
    """Turn [all tokens, part of the heads] into [part of the tokens, all heads]."""
    return _exchange(x, scatter_dim=seq_dim, gather_dim=head_dim, group=group)


def share_heads(
    q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of all tokens, for this process's slice of the heads.

    Key-value heads are repeated first where there are fewer of them than processes.

    Args:
        q: [1, H, T / cp, D], this process's tokens.
        k: [1, K, T / cp, D]; ``v`` alike.
        group: The processes that share one row of tokens.
    """
    if k.shape[1] < group.size():
        repeats = group.size() // k.shape[1]
        k, v = (x.repeat_interleave(repeats, dim=1) for x in (k, v))
    q, k, v = (gather_seq_scatter_heads(x, 2, 1, group) for x in (q, k, v))
    return q, k, v


def own_heads(per_head: Tensor | None, group: dist.ProcessGroup) -> Tensor | None:
    """Return this process's slice of a tensor [H] with one value for each head."""
    return None if per_head is None else per_head.chunk(group.size())[group.rank()]


def _slice_last(x: Tensor, cp_rank: int, cp_size: int, name: str) -> Tensor:
    if x.shape[-1] % cp_size:
        raise ConfigError(
            f"{name} has {x.shape[-1]} tokens, which do not divide over {cp_size} context-parallel "
            "processes; pad the packed row to a multiple"
        )
    return x.chunk(cp_size, dim=-1)[cp_rank].contiguous()


def _exchange(x: Tensor, scatter_dim: int, gather_dim: int, group: dist.ProcessGroup) -> Tensor:
    """Send slice i of ``scatter_dim`` to process i and lays what arrives along ``gather_dim``."""
    size = group.size()
    if size == 1:
        return x
    if x.shape[scatter_dim] % size:
        raise ConfigError(
            f"dimension {scatter_dim} of {tuple(x.shape)} does not divide over the {size} "
            "processes of the context-parallel group"
        )
    scatter_dim, gather_dim = scatter_dim % x.dim(), gather_dim % x.dim()
    parts = x.unflatten(scatter_dim, (size, -1)).movedim(scatter_dim, 0).contiguous()
    arrived = _Exchange.apply(parts, size, group.group_name)
    return arrived.movedim(0, gather_dim).flatten(gather_dim, gather_dim + 1)


class _Exchange(torch.autograd.Function):
    """Sends part i to process i; its backward sends the gradients back."""

    @staticmethod
    def forward(ctx, parts: Tensor, size: int, name: str) -> Tensor:
        ctx.how = size, name
        even = [parts.shape[0] // size] * size
        ops = torch.ops._c10d_functional
        return ops.wait_tensor(ops.all_to_all_single(parts.contiguous(), even, even, name))

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Exchange.apply(gradient, *ctx.how), None, None


class _Gather(torch.autograd.Function):
    """All-gather whose backward is its adjoint, a reduce-scatter."""

    @staticmethod
    def forward(ctx, x: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        parts = [torch.empty_like(x) for _ in range(group.size())]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total.chunk(ctx.group.size(), ctx.dim)[ctx.group.rank()], None, None
