"""Splits a Hugging Face model over tensor parallelism by the plan that transformers has for it.

Outside of what the plan splits, every process computes the same and has whole gradients. A column-
wise projection sums the gradient of its input over the processes, a row-wise one its output.

Source: Shoeybi et al. 2019, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Shard

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel.collectives import (
    Peers,
    gather_values,
    split_values,
    sum_gradients,
    sum_values,
)
from areal.experimental.models.archon.parallel.local import distribute_parameters, see_local

# Projections of a module that is split by heads or channels; its other parameters need a style.
_SPLIT = ("colwise",)


def split_by_plan(model: Any, mesh: DeviceMesh) -> None:
    """Split a model's projections, embedding and head over the processes of a mesh, in place.

    Args:
        model: A causal language model of transformers, the same on all processes.
        mesh: The one-dimensional mesh of tensor parallelism.

    Raises:
        ConfigError: The model has no plan, the plan has a style that is not available, or a size
            does not divide.
    """
    styles = _styles(model, mesh.size())
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    is_tied = head is not None and head.weight is embedding.weight
    for module, style in styles:
        _STYLES[style](module, mesh)
    if is_tied:
        head._parameters["weight"] = embedding._parameters["weight"]


def _styles(model: Any, size: int) -> list[tuple[nn.Module, str]]:
    """Return the modules that are split, each with its style.

    Raises:
        ConfigError: As ``split_by_plan``.
    """
    name = type(model).__name__
    plan = dict(getattr(model, "_tp_plan", None) or {})
    modules = dict(model.named_modules())
    found = {path: _style_of(path, plan) for path in modules}
    # Quantised and packed parameters have entries of their own, which no module matches.
    own = {p: s for p, _ in model.named_parameters() if (s := _style_of(p, plan)) is not None}
    planned = {path: style for path, style in {**found, **own}.items() if style is not None}
    if not any(style in _STYLES for style in planned.values()):
        raise ConfigError(
            f"{name} has no tensor-parallel plan in transformers, so t{size} cannot split it; use "
            "d and c, or the archon backend"
        )
    unknown = sorted({s for p, s in planned.items() if s not in _STYLES or p in own})
    if unknown:
        raise ConfigError(
            f"the tensor-parallel plan of {name} has the style {', '.join(unknown)}, which is not "
            f"available here; known: {', '.join(sorted(_STYLES))}. Use d and c, or the archon "
            "backend"
        )
    _tie_styles(model, planned)
    _check_heads(model, planned, size)
    _check_complete(name, modules, planned)
    return [(modules[path], style) for path, style in planned.items()]


def _style_of(path: str, plan: Mapping[str, str]) -> str | None:
    return plan.get(path, plan.get(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)))


def _tie_styles(model: Any, planned: dict[str, str]) -> None:
    """Split the embedding and the head both, or neither, where they are one parameter."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or head.weight is not embedding.weight:
        return
    paths = {module: path for path, module in model.named_modules()}
    is_split = planned.get(paths[embedding]) == "embedding_rowwise"
    is_split = is_split or planned.get(paths[head]) in ("colwise_gather_output", "colwise_rep")
    for module, style in ((embedding, "embedding_rowwise"), (head, "colwise_gather_output")):
        planned.pop(paths[module], None)
        if is_split:
            planned[paths[module]] = style


def _check_heads(model: Any, planned: Mapping[str, str], size: int) -> None:
    config = model.config.get_text_config()
    by_heads = [p for p, s in planned.items() if s in _SPLIT and "att" in p.rpartition(".")[0]]
    if not by_heads:
        return
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(config, name, None)
        if heads and heads % size:
            raise ConfigError(
                f"{name}={heads} of {type(model).__name__} does not divide over t{size}"
            )


def _check_complete(
    name: str, modules: Mapping[str, nn.Module], planned: Mapping[str, str]
) -> None:
    """Refuse a plan that leaves parameters beside split projections without a style.

    They see this process's heads or channels alone, and their gradients would be parts.
    """
    parents = {path.rpartition(".")[0] for path, style in planned.items() if style in _SPLIT}
    for parent in sorted(parents):
        left = [
            child
            for child, module in modules[parent].named_children()
            if f"{parent}.{child}" not in planned and any(True for _ in module.parameters())
        ]
        left += [child for child, _ in modules[parent].named_parameters(recurse=False)]
        if left:
            raise ConfigError(
                f"the tensor-parallel plan of {name} has no style for {parent}.{left[0]}, beside "
                "projections that it splits; use d and c, or the archon backend"
            )


# --- styles


def _colwise(module: nn.Module, mesh: DeviceMesh) -> None:
    """Split a linear layer's outputs: this process computes its heads or channels."""
    peers = Peers.of(mesh.get_group())
    _distribute(module, mesh, weight=Shard(0), bias=Shard(0))
    module.register_forward_pre_hook(lambda _, args: (sum_gradients(args[0], peers), *args[1:]))


def _colwise_gather_output(module: nn.Linear, mesh: DeviceMesh) -> None:
    """Split a linear layer's outputs and gather them."""
    peers, width = Peers.of(mesh.get_group()), module.out_features
    _colwise(module, mesh)
    module.register_forward_hook(lambda _, __, out: gather_values(out, width, peers))


def _rowwise(module: nn.Module, mesh: DeviceMesh) -> None:
    """Split a linear layer's inputs and sum its outputs."""
    peers = Peers.of(mesh.get_group())

    def forward(self: nn.Linear, x: Tensor) -> Tensor:
        out = sum_values(F.linear(x, self.weight), peers)
        # Added once, and with a whole gradient.
        bias: Any = self._parameters["bias"]
        return out if bias is None else out + bias

    distribute_parameters(module, mesh, {"weight": Shard(1)}, src_data_rank=None, only_named=True)
    see_local(module, mesh, forward=forward)


def _rowwise_split_input(module: nn.Module, mesh: DeviceMesh) -> None:
    """Split a linear layer's inputs, which every process has in full, and sum its outputs."""
    peers = Peers.of(mesh.get_group())
    _rowwise(module, mesh)
    module.register_forward_pre_hook(lambda _, args: (split_values(args[0], peers), *args[1:]))


def _embedding_rowwise(module: nn.Embedding, mesh: DeviceMesh) -> None:
    """Split an embedding by the vocabulary."""
    peers = Peers.of(mesh.get_group())
    share = -(-module.num_embeddings // peers.size())
    first = share * peers.rank()
    last = min(first + share, module.num_embeddings)
    pad = module.padding_idx
    module.padding_idx = pad - first if pad is not None and first <= pad < last else None
    elsewhere: list[Tensor] = []

    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        elsewhere.append((args[0] < first) | (args[0] >= last))
        return ((args[0] - first).masked_fill(elsewhere[-1], 0), *args[1:])

    def after(_: nn.Module, __: Any, out: Tensor) -> Tensor:
        return sum_values(out.masked_fill(elsewhere.pop().unsqueeze(-1), 0), peers)

    _distribute(module, mesh, weight=Shard(0))
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)


def _replicated_in_part(module: nn.Module, mesh: DeviceMesh) -> None:
    """Keep parameters whole that see this process's heads alone, and sum their gradients."""
    _distribute(module, mesh)


def _replicate(module: nn.Module, mesh: DeviceMesh) -> None:
    """Keep parameters whole that every process uses alike."""


def _distribute(module: nn.Module, mesh: DeviceMesh, **placements: Placement) -> None:
    distribute_parameters(module, mesh, placements, src_data_rank=None)


_STYLES: dict[str, Callable[[Any, DeviceMesh], None]] = {
    "colwise": _colwise,
    "colwise_gather_output": _colwise_gather_output,
    "colwise_rep": _colwise_gather_output,
    "embedding_rowwise": _embedding_rowwise,
    "replicate": _replicate,
    "replicated_with_grad_allreduce": _replicated_in_part,
    "rowwise": _rowwise,
    "rowwise_rep": _rowwise_split_input,
    "rowwise_split_input": _rowwise_split_input,
}
