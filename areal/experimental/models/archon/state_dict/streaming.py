"""Checkpoints on disk into a model's parameters and back, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.state_dict.adapter import (
    RuleAdapter,
    fresh_head,
    unwrapped,
)
from areal.experimental.models.archon.state_dict.composite import language_names, refusal
from areal.experimental.models.archon.state_dict.copying import copy_in, gather
from areal.experimental.models.archon.state_dict.plan import (
    CheckpointPlan,
    current_name,
    listed,
)
from areal.experimental.models.archon.state_dict.rules import HubTensor
from areal.experimental.models.archon.state_dict.sharded import LocalPart
from areal.experimental.models.archon.state_dict.shards import (
    DEFAULT_SHARD_BYTES,
    CheckpointFiles,
    ShardWriter,
    group_by_size,
)
from areal.utils import logging

logger = logging.getLogger("ArchonCheckpoint")


@dataclass(frozen=True)
class LoadReport:
    """What loading did beside copying.

    Args:
        num_tensors: Tensors read.
        initialised: Parameters that the checkpoint does not have and that got fresh values.
        left_out: Tensors of the checkpoint that the model does not need.
    """

    num_tensors: int
    initialised: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@torch.no_grad()
def load_checkpoint(
    model: nn.Module,
    folder: str | Path,
    adapter: RuleAdapter,
    dtype: torch.dtype | None = None,
    *,
    text_only: bool = False,
) -> LoadReport:
    """Copy a checkpoint into a model's parameters in place.

    Nothing is copied before every file was found to be whole and every tensor to fit. Parameters
    may be sharded over devices: each process reads what its part needs.

    Args:
        model: All of a model, or one stage of a pipeline; not on ``meta``.
        folder: Has safetensors, and an index if there are several.
        adapter: The model's.
        dtype: Type that parameters get first; None keeps what they have.
        text_only: Take the language model out of a composite checkpoint.

    Raises:
        ConfigError: The checkpoint is damaged, or does not fit the model; all findings are named.
    """
    files = CheckpointFiles.open(folder)
    adapter = adapter.for_state(model.state_dict())
    plan = adapter.plan_of({name: tuple(entry.shape) for name, entry in files.entries.items()})
    places, left_out = _places(files, adapter, plan, text_only)
    state = _state(model, plan)
    if dtype is not None:
        _convert(model, dtype)
        state = _state(model, plan)
    fresh = sorted(adapter.fresh_names(files.entries).keys() & state.keys())
    for name in fresh:
        _fill(state[name], fresh_head(plan.parameters[name]))
    num_tensors = _read_into(state, files, places, plan)
    if fresh:
        logger.warning("%s has no %s: initialised afresh", folder, listed(fresh))
    if left_out:
        logger.info("left out of %s: %s", folder, listed(left_out))
    return LoadReport(num_tensors, tuple(fresh), tuple(sorted(left_out)))


def _places(
    files: CheckpointFiles, adapter: RuleAdapter, plan: CheckpointPlan, text_only: bool
) -> tuple[dict[str, str], list[str]]:
    """Return each tensor's name in the files by its plain name, and the names not read."""
    fresh = set(adapter.fresh_names(files.entries).values())
    needed = replace(plan, tensors=_without(plan.tensors, fresh))
    names = language_names(needed, files.entries)
    places = names or {
        plain: name for name in files.entries if (plain := current_name(name)) in needed.tensors
    }
    taken = set(places.values())
    # What has no numbers, as shared experts of no width, holds nothing.
    empty = {name for name, entry in files.entries.items() if 0 in entry.shape}
    spare = (adapter.head_names | empty) - plan.tensors.keys()
    others = [n for n in files.entries if n not in taken]
    strange = [n for n in others if not plan.ignores(n) and n not in spare]
    if names and not text_only:
        raise ConfigError(f"{files.folder} does not fit the model: {refusal(names, strange)}")
    unknown = _in_layers(strange, taken) if text_only else strange
    shapes = {name: files.entries[place].shape for name, place in places.items()}
    shapes |= {name: files.entries[name].shape for name in unknown}
    if problems := needed.mismatches(shapes):
        hint = "; text_only=True leaves out what is not part of a language model" if unknown else ""
        raise ConfigError(f"{files.folder} does not fit the model: " + "; ".join(problems) + hint)
    return {n: place for n, place in places.items() if n in needed.required}, others


def _in_layers(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return the names that lie beside the layers of the language model."""
    homes = {name.rpartition(".layers.")[0] for name in taken if ".layers." in name}
    return [n for n in names if ".layers." in n and n.rpartition(".layers.")[0] in homes]


def _without(tensors: Mapping[str, HubTensor], names: set[str]) -> dict[str, HubTensor]:
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _convert(model: nn.Module, dtype: torch.dtype) -> None:
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)


def _state(model: nn.Module, plan: CheckpointPlan) -> dict[str, Tensor]:
    state = {unwrapped(name): tensor for name, tensor in model.state_dict().items()}
    if unknown := state.keys() - plan.parameters.keys():
        raise ConfigError(f"the adapter is another model's: it has no {listed(unknown)}")
    if empty := [name for name, tensor in state.items() if tensor.is_meta]:
        raise ConfigError(f"on meta, so there is nothing to copy into: {listed(empty)}")
    return state


def _read_into(
    state: Mapping[str, Tensor],
    files: CheckpointFiles,
    places: Mapping[str, str],
    plan: CheckpointPlan,
) -> int:
    """Copy the tensors, and return how many."""
    targets = _targets(state, plan)
    parts = {name: LocalPart(t) for name, t in state.items() if isinstance(t, DTensor)}
    plain = {name: tensor for name, tensor in state.items() if name not in parts}
    names = {
        places[name]: targets[name]
        for name in places
        if name in targets and any(_wants(piece, parts) for piece in targets[name].pieces)
    }
    with files.reading(names) as tensors:
        for place, tensor in tensors:
            copy_in(plain, names[place], tensor)
            for piece in names[place].pieces:
                if piece.archon in parts:
                    parts[piece.archon].copy_in(piece, tensor)
    return len(names)


def _wants(piece: Any, parts: Mapping[str, LocalPart]) -> bool:
    return piece.archon not in parts or parts[piece.archon].wants(piece)


def _targets(state: Mapping[str, Tensor], plan: CheckpointPlan) -> dict[str, HubTensor]:
    """Return what each required tensor is copied into, parameters of this process only.

    A tied parameter of its own memory, as on the last stage of a pipeline, is one more piece of the
    tensor in place of both.
    """
    twins: dict[str, list[str]] = {}
    for twin, source in plan.twins.items():
        if twin in state and not _shares(state, twin, source):
            twins.setdefault(source, []).append(twin)
    targets: dict[str, HubTensor] = {}
    for holder in plan.required.values():
        pieces = [piece for piece in holder.pieces if piece.archon in state]
        for piece in holder.pieces:
            pieces += [replace(piece, archon=twin) for twin in twins.get(piece.archon, ())]
        if pieces:
            targets[holder.name] = replace(holder, pieces=tuple(pieces))
    return targets


def _shares(state: Mapping[str, Tensor], one: str, other: str) -> bool:
    if other not in state or isinstance(state[one], DTensor):
        return False
    return state[one].data_ptr() == state[other].data_ptr()


def _fill(target: Tensor, values: Tensor) -> None:
    if isinstance(target, DTensor):
        LocalPart(target).copy_whole(values)
    else:
        target.copy_(values)


@torch.no_grad()
def save_checkpoint(
    model: nn.Module | Sequence[nn.Module],
    folder: str | Path,
    adapter: RuleAdapter,
    max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    *,
    dtype: torch.dtype | None = None,
    pp_group: dist.ProcessGroup | None = None,
) -> None:
    """Write a model's parameters as a checkpoint that transformers reads.

    Memory beside the model is one shard at most, and nothing where the parameters lie on the CPU as
    the Hub has them. Where several processes share the parameters all of them call it, each tensor
    is gathered in turn, and the first process writes.

    Args:
        model: All of a model, or this process's stages of a pipeline.
        folder: Has no weights yet; an index is written if there are several shards.
        adapter: The model's.
        dtype: Type of the floating-point tensors on disk; None keeps what they have.
        pp_group: The processes that share the layers of a pipeline.

    Raises:
        ConfigError: The model lacks a parameter, or the folder has weights.
    """
    plan = adapter.plan
    whole = WholeTensors(model, plan, pp_group)
    sizes = {h.name: _num_bytes(h, whole, dtype) for h in plan.saved.values()}
    is_writer = not dist.is_initialized() or dist.get_rank() == 0
    writer = ShardWriter(folder, group_by_size(sizes, max_shard_bytes)) if is_writer else None
    for name, tensor in _tensors(whole, plan):
        if writer is not None:
            writer.add(name, _on_disk(tensor, dtype))
    if writer is not None:
        writer.finish()
    if whole.are_shared:
        dist.barrier()


@torch.no_grad()
def hub_tensors(
    model: nn.Module | Sequence[nn.Module],
    adapter: RuleAdapter,
    dtype: torch.dtype | None = None,
    pp_group: dist.ProcessGroup | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Yield a model's tensors under their names on the Hub, each gathered in turn.

    All processes that share the model iterate, and each gets every tensor, which is valid until the
    next one. The arguments are those of ``save_checkpoint``.
    """
    for name, tensor in _tensors(WholeTensors(model, adapter.plan, pp_group), adapter.plan):
        yield name, tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor


class WholeTensors:
    """The parameters of a model, each whole on every process while it is in use.

    Args:
        model: All of a model, or this process's stages of a pipeline.
        plan: Of its checkpoint.
        pp_group: The processes that share the layers of a pipeline.

    Attributes:
        are_shared: Whether several processes have to take part.

    Raises:
        ConfigError: A parameter of the plan is nowhere.
    """

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        plan: CheckpointPlan,
        pp_group: dist.ProcessGroup | None = None,
    ) -> None:
        parts = [model] if isinstance(model, nn.Module) else model
        self._state = {name: t for part in parts for name, t in _state(part, plan).items()}
        self._group = pp_group
        dtypes = [{name: tensor.dtype for name, tensor in self._state.items()}]
        if pp_group is not None:
            own, dtypes = dtypes[0], [{} for _ in range(pp_group.size())]
            dist.all_gather_object(dtypes, own, group=pp_group)
        self.dtypes = {name: dtype for of_stage in dtypes for name, dtype in of_stage.items()}
        self._owners = {name: place for place, names in enumerate(dtypes) for name in names}
        self._shapes = plan.parameters
        if absent := plan.parameters.keys() - self.dtypes.keys() - plan.twins.keys():
            raise ConfigError(f"not all of a model: {listed(absent)} is missing")
        is_split = any(isinstance(tensor, DTensor) for tensor in self._state.values())
        self.are_shared = is_split or pp_group is not None

    def get(self, name: str) -> Tensor:
        """Return one parameter; all processes ask for the same one."""
        tensor = self._state.get(name)
        if isinstance(tensor, DTensor):
            tensor = tensor.full_tensor()
        if self._group is not None:
            owner = self._owners[name]
            if owner != self._group.rank() or tensor is None:
                device = next(iter(self._state.values())).device
                tensor = torch.empty(self._shapes[name], dtype=self.dtypes[name], device=device)
            tensor = tensor.detach().contiguous()
            dist.broadcast(tensor, group=self._group, group_src=owner)
        assert tensor is not None, f"{name} is nowhere"
        return tensor.detach()


def _num_bytes(holder: HubTensor, whole: WholeTensors, dtype: torch.dtype | None) -> int:
    own = whole.dtypes[holder.parameters[0]]
    stored = dtype if dtype is not None and own.is_floating_point else own
    return torch.Size(holder.shape).numel() * stored.itemsize


def _tensors(parameters: WholeTensors, plan: CheckpointPlan) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the Hub in order; parameters are gathered while in use."""
    last_use = {name: h.name for h in plan.saved.values() for name in h.parameters}
    whole: dict[str, Tensor] = {}
    for holder in plan.saved.values():
        for name in holder.parameters:
            if name not in whole:
                whole[name] = parameters.get(name)
        yield holder.name, gather(holder, whole)
        for name in [n for n in holder.parameters if last_use[n] == holder.name]:
            del whole[name]


def _on_disk(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is not None and tensor.is_floating_point():
        tensor = tensor.to(dtype)
    return tensor.cpu().contiguous()
