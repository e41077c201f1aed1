"""Weights and training state on disk: safetensors, and PyTorch's distributed checkpoint.

A checkpoint is complete or absent: everything is written to a folder beside the target, synced, and
renamed.
"""

from __future__ import annotations

import copy
import ctypes
import itertools
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from areal.api.errors import ConfigError
from areal.engine.model.attention import IMPLEMENTATION
from areal.engine.processes import from_first, is_first, wait_for_all
from areal.experimental.models.archon.state_dict.sharded import LocalPart

TRAINING_STATE = "training_state"

# Of renameat2(2).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def atomic_folder(target: str | Path) -> Iterator[Path]:
    """Yield a fresh folder that takes the target's place when the block ends well.

    An existing target is replaced as a whole; after an error, or a kill, it is as it was. What
    killed writers of the same target left behind is cleared away first. Several processes that
    write one target get the same folder, and the first of them puts it in place.
    """
    if is_first():
        with staged_folder(Path(target)) as staged:
            yield from_first(staged)
            wait_for_all()
    else:
        yield from_first(Path())
        wait_for_all()
    wait_for_all()


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Do what ``atomic_folder`` does, in this process alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(target)
    staged = target.with_name(f"{_staged_prefix(target)}{os.getpid()}")
    staged.mkdir()
    try:
        yield staged
        for path in staged.rglob("*"):
            _sync(path)
        _sync(staged)
        _put_in_place(staged, target)
        _sync(target.parent)
    finally:
        # Now what was in the target's place before, if the block ended well.
        shutil.rmtree(staged, ignore_errors=True)


def clear_leftovers(target: Path) -> None:
    """Delete what killed writers of a target left, and bring back a target they set aside."""
    for retired in target.parent.glob(f"{_retired_prefix(target)}*"):
        if not target.exists():
            os.replace(retired, target)
        shutil.rmtree(retired, ignore_errors=True)
    for staged in target.parent.glob(f"{_staged_prefix(target)}*"):
        shutil.rmtree(staged, ignore_errors=True)


def _staged_prefix(target: Path) -> str:
    return f".{target.name}.staged-"


def _retired_prefix(target: Path) -> str:
    return f".{target.name}.retired-"


def _put_in_place(staged: Path, target: Path) -> None:
    if not target.exists():
        os.replace(staged, target)
    elif not _exchange(staged, target):
        retired = target.with_name(f"{_retired_prefix(target)}{os.getpid()}")
        os.replace(target, retired)
        os.replace(staged, target)
        shutil.rmtree(retired, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, which leaves no moment without a target.

    Returns:
        False where the system or its file system cannot.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(one.absolute()), os.fsencode(other.absolute())
    return renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_hf_model(module: nn.Module, path: str | Path, tokenizer: Any = None) -> None:
    """Put a folder that ``from_pretrained`` reads in place: weights, configuration, tokenizer."""
    with atomic_folder(path) as folder:
        write_hf_model(module, folder, tokenizer)


def write_hf_model(
    module: nn.Module,
    folder: Path,
    tokenizer: Any = None,
    tensors: Iterable[tuple[str, Tensor]] | None = None,
) -> None:
    """Write what ``save_hf_model`` puts in place into a folder that nobody reads yet.

    All processes that share the model call it; the first one gathers the weights and writes.

    Args:
        module: The model.
        folder: Where to write.
        tokenizer: Is written too.
        tensors: What to write under the model's own names; None takes ``whole_tensors``.
    """
    model: Any = module
    tensors = whole_tensors(module) if tensors is None else tensors
    whole = {name: tensor.cpu() for name, tensor in tensors if is_first()}
    if not is_first():
        return
    with quiet_progress():
        model.save_pretrained(folder, state_dict=whole)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    _forget_implementation(folder / "config.json")


@torch.no_grad()
def hub_tensors(
    module: nn.Module,
    dtype: torch.dtype | None,
    tensors: Iterable[tuple[str, Tensor]] | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a Hugging Face model under their names on the Hub, layer by layer.

    All processes that share the model iterate.

    Args:
        module: The model.
        dtype: Of floating-point tensors; None keeps what they have.
        tensors: Under the model's own names; None takes ``whole_tensors``.
    """
    from transformers.core_model_loading import revert_weight_conversion

    model: Any = module
    tensors = whole_tensors(module) if tensors is None else tensors
    for _, bucket in itertools.groupby(tensors, lambda item: _layer_of(item[0])):
        # Experts, for one, are one block in the model and single matrices on the Hub.
        for name, tensor in revert_weight_conversion(model, dict(bucket)).items():
            yield name, tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor


def _layer_of(name: str) -> str:
    """Return the part of a parameter's name up to its first number, or all of it."""
    found = re.match(r".*?\.\d+\.", name)
    return found.group() if found else name


def whole_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield what a checkpoint holds under the model's own names, gathered one by one."""
    tied = _tied_names(module)
    for name, tensor in module.state_dict().items():
        if name not in tied:
            whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            yield name, whole.detach()


@torch.no_grad()
def copied(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """Return copies in host memory, in the first process; the others iterate and get nothing."""
    return [(name, t.to("cpu", copy=True)) for name, t in tensors if is_first()]


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Keep transformers' own bars from breaking into the run's."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _forget_implementation(config_path: Path) -> None:
    """Drop the attention implementation, which exists only where this package is imported."""
    config = json.loads(config_path.read_text())
    if (
        config.get("attn_implementation") == IMPLEMENTATION
        or config.get("_attn_implementation") == IMPLEMENTATION
    ):
        config.pop("attn_implementation", None)
        config.pop("_attn_implementation", None)
        config_path.write_text(json.dumps(config, indent=2) + "\n")


def load_hf_weights(module: nn.Module, path: str | Path) -> None:
    """Copy the safetensors of a checkpoint folder into a model in place, all or nothing.

    Of what several processes share, each takes its part.

    Raises:
        ConfigError: There is no checkpoint, it is damaged, or it lacks or adds a tensor.
    """
    state = dict(module.state_dict())
    tied = _tied_names(module)
    loaded = read_tensors(Path(path))
    if set(state) - set(loaded) - tied or set(loaded) - set(state):
        loaded = _converted(module, path)
    missing = sorted(set(state) - set(loaded) - tied)
    extra = sorted(set(loaded) - set(state))
    wrong = sorted(n for n in set(loaded) & set(state) if loaded[n].shape != state[n].shape)
    if missing or extra or wrong:
        raise ConfigError(
            f"{path} does not fit the model: missing {missing}, unknown {extra}, "
            f"other shape {wrong}"
        )
    with torch.no_grad():
        for name, tensor in loaded.items():
            target = state[name]
            if isinstance(target, DTensor):
                LocalPart(target).copy_whole(tensor)
            else:
                target.copy_(tensor)


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Return all tensors of a folder's safetensors.

    Raises:
        ConfigError: There are none, or a file is damaged.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"no *.safetensors in {folder}")
    loaded: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            loaded.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise ConfigError(f"cannot read {file}: {error}; is the file complete?") from error
    return loaded


def _converted(module: nn.Module, path: str | Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint that spells or groups them otherwise than the model.

    Experts, for one, are single matrices on disk and one block in a model. Only transformers knows
    these spellings, so it reads them, into a second model; names that it does not know, or misses,
    come back as they are on disk, or not at all.
    """
    model: Any = module
    dtype = next(module.parameters()).dtype
    own_class: Any = next(c for c in type(model).__mro__ if not issubclass(c, FSDPModule))
    with quiet_progress():
        try:
            twin, found = own_class.from_pretrained(
                path,
                config=copy.deepcopy(model.config),
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(f"cannot load {path}: {error}") from error
    mismatched = {key[0] for key in found["mismatched_keys"]}
    if mismatched:
        raise ConfigError(f"{path} does not fit the model: other shape {sorted(mismatched)}")
    extra = {name: torch.empty(0) for name in found["unexpected_keys"]}
    state = twin.state_dict()
    return {n: t for n, t in state.items() if n not in found["missing_keys"]} | extra


def _tied_names(module: nn.Module) -> set[str]:
    """Return names of parameters that another name has too, and so need not be on disk."""
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return names - {name for name, _ in module.named_parameters()}


def save_training_state(
    path: str | Path,
    parameters: Iterable[tuple[str, nn.Parameter]],
    optimizer: torch.optim.Optimizer,
    schedule: Any,
) -> None:
    """Write optimiser and schedule into a folder of a checkpoint; each process its part.

    The state of a parameter is kept under its name and as one tensor, however many processes share
    it, so that another number of them can read it.

    Args:
        path: The folder.
        parameters: Of the model, with the names that they have in every split of it.
        optimizer: Its optimiser.
        schedule: Of the learning rate.
    """
    import torch.distributed.checkpoint as dcp

    state = _named_state(parameters, optimizer, schedule)
    with _quiet_checkpoint():
        dcp.save(state, checkpoint_id=Path(path) / TRAINING_STATE, no_dist=_is_alone())


def load_training_state(
    path: str | Path,
    parameters: Iterable[tuple[str, nn.Parameter]],
    optimizer: torch.optim.Optimizer,
    schedule: Any,
) -> None:
    """Read what ``save_training_state`` wrote, by as many processes as there are now.

    Raises:
        ConfigError: It is another model's, or damaged.
    """
    import torch.distributed.checkpoint as dcp

    parameters = dict(parameters)
    folder = Path(path) / TRAINING_STATE
    with _quiet_checkpoint():
        try:
            saved = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
            if any(key.startswith("optimizer.") for key in saved):
                _materialise(optimizer)
            else:  # saved before any step was taken
                optimizer.state.clear()
            state = _named_state(parameters.items(), optimizer, schedule)
            dcp.load(state, checkpoint_id=folder, no_dist=_is_alone())
        except (RuntimeError, ValueError, OSError, dcp.api.CheckpointException) as error:
            raise ConfigError(
                f"the optimiser's state in {folder} is damaged, or does not fit the model: "
                f"{_cause(error)}"
            ) from error
    for name, values in state["optimizer"].items():
        optimizer.state[parameters[name]] = values
    for group, settings in zip(optimizer.param_groups, state["groups"], strict=True):
        group.update(settings)
    schedule.load_state_dict(state["schedule"])


def _cause(error: BaseException) -> str:
    """Return what went wrong in one line; a failure of processes holds their traces too."""
    for failure, _ in getattr(error, "failures", {}).values():
        error = failure
    return str(error).partition("\n")[0] or type(error).__name__


def _is_alone() -> bool:
    return not dist.is_initialized()


@contextmanager
def _quiet_checkpoint() -> Iterator[None]:
    """Silence the warning that there is no process group, and let Ctrl-C be Ctrl-C.

    PyTorch wraps whatever is raised in the middle of a checkpoint, interrupts too.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            yield
        except BaseException as error:
            # Importing its class would cost every start a second.
            failures: dict[int, Any] = getattr(error, "failures", {})
            if any(isinstance(found, KeyboardInterrupt) for found, _ in failures.values()):
                raise KeyboardInterrupt from None
            raise


def _named_state(
    parameters: Iterable[tuple[str, nn.Parameter]], optimizer: torch.optim.Optimizer, schedule: Any
) -> dict[str, Any]:
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    state: Mapping[Any, Any] = optimizer.state
    named = {name: dict(state[p]) for name, p in parameters if p in state}
    return {"optimizer": named, "groups": groups, "schedule": schedule.state_dict()}


def _materialise(optimizer: torch.optim.Optimizer) -> None:
    """Make an optimiser allocate its state, so that there is something to load into."""
    if optimizer.state:
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    decays = [group["weight_decay"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        # A step at rate 0 with zero gradients changes no parameter.
        group["lr"], group["weight_decay"] = 0.0, 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate, decay in zip(optimizer.param_groups, rates, decays, strict=True):
        group["lr"], group["weight_decay"] = rate, decay
