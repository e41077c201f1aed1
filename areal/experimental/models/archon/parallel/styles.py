"""Tensor-parallel styles, for ``torch.distributed.tensor.parallel.parallelize_module``.

Between modules an activation holds this process's slice of the tokens (sequence parallelism). A
``Region`` gathers all tokens at its entry; inside, each process computes its heads or channels; the
``Rowwise`` projection at its end sums them and scatters the tokens again. What no style names is
replicated and needs none: norms, gates and down projections are right on a slice and inside alike.

Source: Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022, arXiv:2205.05198.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.norms import RMSNorm
from areal.experimental.models.archon.layers.positions import AlibiSlopes
from areal.experimental.models.archon.parallel.collectives import (
    Peers,
    gather_along,
    own_slice,
    scatter_sum,
    sum_values,
)
from areal.experimental.models.archon.parallel.local import distribute_parameters, see_local

_TOKENS = -2


class _Style(ParallelStyle):
    """Distributes a module's own parameters; derived classes say how and what happens around it."""

    def __init__(self, **placements: Placement) -> None:
        self.placements = placements

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        distribute_parameters(module, device_mesh, self.placements, self.src_data_rank)
        self.surround(module, device_mesh)
        return module

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        """Add what happens before and after the module's forward."""


class Replicated(_Style):
    """Keeps the parameters whole: for norms, gates, routers and low-rank projections."""

    def __init__(self) -> None:
        super().__init__()


class Region(_Style):
    """Gathers all tokens at the entry of a module whose insides are split by heads or channels.

    Its last projection, ``Rowwise``, sums the parts and scatters the tokens again. ALiBi slopes
    follow the heads by themselves.

    Args:
        per_head: Own parameters of the module with one row for each head.
    """

    def __init__(self, *, per_head: tuple[str, ...] = ()) -> None:
        super().__init__(**dict.fromkeys(per_head, Shard(0)))

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        for child in module.children():
            if isinstance(child, AlibiSlopes):
                child.first_head = child.n_heads // group.size() * group.rank()

        def enter(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (gather_along(args[0], _TOKENS, group), *args[1:])

        module.register_forward_pre_hook(enter)


class Colwise(_Style):
    """Splits a linear layer's outputs: this process computes its heads or channels."""

    def __init__(self) -> None:
        super().__init__(weight=Shard(0), bias=Shard(0))


class _SharedStyle(_Style):
    """Keeps whole what belongs to key-value heads, of which several processes have the same one.

    Args:
        n_heads: Key-value heads of the model; divides the number of processes.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads


class SharedHeads(_SharedStyle):
    """Keeps a key or value projection whole and its output to the head that this process needs.

    For models with fewer key-value heads than processes; several processes then have the same one.
    """

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        own = mesh.get_local_rank() * self.n_heads // mesh.size()
        module.register_forward_hook(lambda _, __, out: out.chunk(self.n_heads, -1)[own])


class SharedPerHead(_SharedStyle):
    """Keeps a norm that differs by key-value head whole, of which a process has one head."""

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        own = mesh.get_local_rank() * self.n_heads // mesh.size()
        # One head is normed as every head would be, and as its own kept: they are few.
        module.register_forward_pre_hook(
            lambda _, args: (args[0].expand(-1, self.n_heads, -1, -1),)
        )
        module.register_forward_hook(lambda _, __, out: out[:, own : own + 1])


class SharedProjectionNorm(_SharedStyle):
    """Norms all key-value heads together where several processes have the same one."""

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        own = group.rank() * self.n_heads // group.size()

        def enter(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            # Of each head the copy of the first process that has it.
            heads = gather_along(args[0], -1, group).unflatten(-1, (self.n_heads, -1))
            return (heads[..., : args[0].shape[-1]].flatten(-2),)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(lambda _, __, out: out.chunk(self.n_heads, -1)[own])


class PerHead(_Style):
    """Splits parameters with one row for each head, such as a norm that differs by head."""

    def __init__(self) -> None:
        super().__init__(weight=Shard(0), bias=Shard(0))


class Rowwise(_Style):
    """Splits a linear layer's inputs; sums its outputs and returns this process's tokens.

    Args:
        sums_output: Whether to do the latter; otherwise the module around it does.
    """

    def __init__(self, *, sums_output: bool = True) -> None:
        super().__init__(weight=Shard(1))
        self.sums_output = sums_output

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        size = group.size()

        # Every process adds its share of the bias, so that the sum has it once.
        def forward(self: nn.Linear, x: Tensor) -> Tensor:
            bias = self.bias
            return F.linear(x, self.weight, None if bias is None else bias / size)

        see_local(module, mesh, forward=forward)
        if self.sums_output:
            module.register_forward_hook(lambda _, __, out: scatter_sum(out, _TOKENS, group))


class ProjectionNorm(ParallelStyle):
    """Norms a projection as a whole although each process has only its heads or channels of it.

    Without it, each process would norm by the statistics of its own channels.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if isinstance(module, RMSNorm):
            # One number for each token is summed.
            split: dict[str, Placement] = {"weight": Shard(0)}
            distribute_parameters(module, device_mesh, split, self.src_data_rank)
            module.set_tp_group(device_mesh.get_group())
        else:
            group = Peers.of(device_mesh.get_group())
            distribute_parameters(module, device_mesh, {}, self.src_data_rank)
            module.register_forward_pre_hook(lambda _, args: (gather_along(args[0], -1, group),))
            module.register_forward_hook(lambda _, __, out: own_slice(out, -1, group))
        return module


class VocabEmbedding(_Style):
    """Splits an embedding by its rows and returns this process's tokens."""

    def __init__(self) -> None:
        super().__init__(weight=Shard(0))

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        first = -(-module.num_embeddings // group.size()) * group.rank()

        def forward(self: nn.Embedding, tokens: Tensor) -> Tensor:
            weight = self.weight
            own = tokens - first
            elsewhere = (own < 0) | (own >= weight.shape[0])
            if self.padding_idx is not None:
                # Its row is looked up but gets no gradient.
                pad = tokens == self.padding_idx
                found = F.embedding(own.masked_fill(elsewhere, 0), weight)
                found = found.detach().where(pad.unsqueeze(-1), found)
            else:
                found = F.embedding(own.masked_fill(elsewhere, 0), weight)
            return scatter_sum(found.masked_fill(elsewhere.unsqueeze(-1), 0), _TOKENS, group)

        _check_plain(module, nn.Embedding)
        see_local(module, mesh, forward=forward)


class OwnTokens(_Style):
    """Keeps the parameters whole and this process's tokens of the output: learned positions."""

    def __init__(self) -> None:
        super().__init__()

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        module.register_forward_hook(lambda _, __, out: own_slice(out, _TOKENS, group))


class AllTokens(_Style):
    """Keeps the parameters whole and gathers all tokens of the output: the final norm."""

    def __init__(self) -> None:
        super().__init__()

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())
        module.register_forward_hook(lambda _, __, out: gather_along(out, _TOKENS, group))


class VocabHead(_Style):
    """Splits the language-model head by the vocabulary.

    Args:
        loss_parallel: Whether the logits stay a DTensor split by the vocabulary, for
            ``torch.distributed.tensor.parallel.loss_parallel``; otherwise every process has all.
    """

    def __init__(self, *, loss_parallel: bool) -> None:
        super().__init__(weight=Shard(0), bias=Shard(0))
        self.loss_parallel = loss_parallel

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        vocab = module.out_features

        def leave(_: nn.Module, __: tuple[Any, ...], out: Tensor) -> Tensor:
            shape = (*out.shape[:-1], vocab)
            stride = _contiguous_stride(shape)
            logits = DTensor.from_local(
                out, mesh, [Shard(out.dim() - 1)], run_check=False, shape=shape, stride=stride
            )
            if self.loss_parallel:
                return logits
            return logits.redistribute(placements=[Replicate()]).to_local()

        module.register_forward_hook(leave)


class ScoreHead(_Style):
    """Splits a critic's head by its inputs: its few outputs are summed and whole everywhere."""

    def __init__(self) -> None:
        super().__init__(weight=Shard(1))

    def surround(self, module: nn.Module, mesh: DeviceMesh) -> None:
        group = Peers.of(mesh.get_group())

        # The loss is computed everywhere from the same scores, so the bias's gradient is whole
        # already and must not be summed: the bias is read as it is kept.
        def forward(self: nn.Linear, x: Tensor) -> Tensor:
            scores = sum_values(F.linear(own_slice(x, -1, group), self.weight), group)
            bias = self._parameters["bias"]
            return scores if bias is None else scores + bias.to_local()

        see_local(module, mesh, forward=forward)


def _check_plain(module: nn.Module, kind: type[nn.Module]) -> None:
    if not isinstance(module, kind):
        raise ConfigError(f"{type(module).__name__} cannot be split as {kind.__name__} is")


def _contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride = [1]
    for size in reversed(shape[1:]):
        stride.insert(0, stride[0] * size)
    return tuple(stride)
