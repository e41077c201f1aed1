"""Weights and training state on disk: safetensors, and PyTorch's distributed checkpoint.

A checkpoint is complete or absent: everything is written to a folder beside the target, synced, and
renamed.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from areal.api.errors import ConfigError
from areal.engine.attention import IMPLEMENTATION

TRAINING_STATE = "training_state"


@contextmanager
def atomic_folder(target: str | Path) -> Iterator[Path]:
    """Yields a fresh folder that takes the target's place when the block ends well.

    An existing target is replaced as a whole; after an error it is as it was.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.staged-{os.getpid()}")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    try:
        yield staged
        for path in staged.rglob("*"):
            _sync(path)
        _sync(staged)
        retired = target.with_name(f".{target.name}.retired-{os.getpid()}")
        if target.exists():
            os.replace(target, retired)
        os.replace(staged, target)
        _sync(target.parent)
        shutil.rmtree(retired, ignore_errors=True)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_hf_model(module: nn.Module, path: str | Path, tokenizer: Any = None) -> None:
    """Writes a folder that ``from_pretrained`` reads: safetensors, configuration, tokenizer."""
    model: Any = module
    with atomic_folder(path) as folder:
        with quiet_progress():
            model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        _forget_implementation(folder / "config.json")


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Keeps transformers' own bars from breaking into the run's."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _forget_implementation(config_path: Path) -> None:
    """Drops the attention implementation, which exists only where this package is imported."""
    config = json.loads(config_path.read_text())
    if (
        config.get("attn_implementation") == IMPLEMENTATION
        or config.get("_attn_implementation") == IMPLEMENTATION
    ):
        config.pop("attn_implementation", None)
        config.pop("_attn_implementation", None)
        config_path.write_text(json.dumps(config, indent=2) + "\n")


def load_hf_weights(module: nn.Module, path: str | Path) -> None:
    """Copies the safetensors of a checkpoint folder into a model in place.

    Raises:
        ConfigError: There is no checkpoint, or it lacks or adds a tensor.
    """
    from safetensors.torch import load_file

    files = sorted(Path(path).glob("*.safetensors"))
    if not files:
        raise ConfigError(f"no *.safetensors in {path}")
    loaded: dict[str, torch.Tensor] = {}
    for file in files:
        loaded.update(load_file(file))
    state = dict(module.state_dict())
    tied = _tied_names(module)
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
            state[name].copy_(tensor)


def _tied_names(module: nn.Module) -> set[str]:
    """Returns parameters that share memory with another one and so need not be on disk."""
    first: dict[int, str] = {}
    tied: set[str] = set()
    for name, tensor in module.state_dict().items():
        if first.setdefault(tensor.data_ptr(), name) != name:
            tied.add(name)
    return tied


def save_training_state(path: str | Path, optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Writes optimiser and schedule into a folder of a checkpoint."""
    import torch.distributed.checkpoint as dcp

    state = {"optimizer": _flat(optimizer.state_dict()), "schedule": schedule.state_dict()}
    with _single_process():
        dcp.save(state, checkpoint_id=Path(path) / TRAINING_STATE, no_dist=True)


def load_training_state(path: str | Path, optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Reads what ``save_training_state`` wrote."""
    import torch.distributed.checkpoint as dcp

    _materialise(optimizer)
    state = {"optimizer": _flat(optimizer.state_dict()), "schedule": schedule.state_dict()}
    with _single_process():
        dcp.load(state, checkpoint_id=Path(path) / TRAINING_STATE, no_dist=True)
    optimizer.load_state_dict(_nested(state["optimizer"]))
    schedule.load_state_dict(state["schedule"])


@contextmanager
def _single_process() -> Iterator[None]:
    """Silences the warning that there is no process group: that is what is meant here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    """Turns the optimiser's integer keys into the strings that checkpoints want."""
    return {
        "state": {str(k): v for k, v in state["state"].items()},
        "param_groups": state["param_groups"],
    }


def _nested(state: dict[str, Any]) -> dict[str, Any]:
    return {
        "state": {int(k): v for k, v in state["state"].items()},
        "param_groups": state["param_groups"],
    }


def _materialise(optimizer: torch.optim.Optimizer) -> None:
    """Makes an optimiser allocate its state, so that there is something to load into."""
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
