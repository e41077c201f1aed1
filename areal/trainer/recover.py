"""Checkpoints for resuming: complete or absent, the newest wins."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from areal.api.errors import ConfigError
from areal.api.io_struct import SaveLoadMeta
from areal.engine.model.checkpoint import atomic_folder
from areal.engine.processes import from_all, from_first, is_first
from areal.engine.training.engine import PackedTrainEngine
from areal.engine.training.optimizer import move_schedule

FORMAT_VERSION = 3
RECOVER_FOLDER = "recover"
"""In the folder of a run."""

_STATE_FILE = "state.pt"
_PREFIX = "step_"


@dataclass
class RecoverState:
    """All of a run's state outside the model and its optimiser.

    Args:
        step: Finished steps.
        dataloader: Position in the dataset.
        rollout: What the executor handed out and has under way; {} for supervised training.
        version: Of the weights.
        num_sequences: Trained so far.
        extra: The trainer's own counters.
    """

    step: int
    dataloader: dict[str, Any]
    rollout: dict[str, Any]
    version: int
    num_sequences: int
    extra: dict[str, Any]


def save_recover(
    folder: Path,
    engines: Mapping[str, PackedTrainEngine],
    state: RecoverState,
    with_optim: bool = True,
) -> None:
    """Write the checkpoint of a step and then delete older ones.

    Args:
        folder: Of the checkpoints.
        engines: What is trained, by the names of its folders in the checkpoint.
        state: The rest.
        with_optim: Whether the optimisers are saved too.
    """
    target = folder / f"{_PREFIX}{state.step:08d}"
    with atomic_folder(target) as staged:
        for name, engine in engines.items():
            engine.save(
                SaveLoadMeta(path=str(staged / name), weight_format="hf", with_optim=with_optim)
            )
        content = {
            "format": FORMAT_VERSION,
            "engines": list(engines),
            "with_optim": with_optim,
            "random": from_all(_random_state()),
            **asdict(state),
        }
        if is_first():
            torch.save(content, staged / _STATE_FILE)
    for older in _checkpoints(folder) if is_first() else ():
        if older != target:
            shutil.rmtree(older, ignore_errors=True)


def rollout_state(engine: Any) -> dict[str, Any]:
    """Return what an inference engine has handed out and has under way."""
    state = {"executor": engine.workflow_executor.state_dict()}
    # Servers draw by the seeds of their requests, which the executor numbers.
    if hasattr(engine, "random_state"):
        state["random"] = engine.random_state()
    return state


def restore_rollout(engine: Any, state: Mapping[str, Any]) -> None:
    """Have an inference engine that has not begun go on from ``rollout_state``."""
    if "executor" in state:
        engine.workflow_executor.load_state_dict(state["executor"])
    if "random" in state:
        engine.set_random_state(state["random"])


def has_recover(folder: Path) -> bool:
    """Return whether there is a complete checkpoint."""
    return bool(_checkpoints(folder))


def find_recover(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, or None; what a kill left half done is deleted."""
    return from_first(_tidied(folder) if is_first() else None)


def _tidied(folder: Path) -> Path | None:
    for leftover in [*folder.glob(f".{_PREFIX}*"), *folder.glob(f"{_PREFIX}*")]:
        if leftover.name.startswith(".") or not (leftover / _STATE_FILE).is_file():
            shutil.rmtree(leftover, ignore_errors=True)
    found = _checkpoints(folder)
    return found[-1] if found else None


def load_recover(
    checkpoint: Path, engines: Mapping[str, PackedTrainEngine], with_optim: bool = True
) -> RecoverState:
    """Put a checkpoint's weights, optimisers and random streams in place and return the rest.

    Raises:
        ConfigError: The checkpoint is damaged, of another format or of other models.
    """
    try:
        # Our own file: dataloader and executor states hold plain containers beside tensors.
        content = torch.load(checkpoint / _STATE_FILE, weights_only=False)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(f"cannot read {checkpoint / _STATE_FILE}: {reason}") from error
    if (found := content.pop("format")) != FORMAT_VERSION:
        raise ConfigError(
            f"{checkpoint} has format {found}, and this version of areal-lite reads "
            f"{FORMAT_VERSION}; resume with the version that wrote it"
        )
    if (saved := content.pop("engines")) != list(engines):
        differing = " and ".join(sorted(set(saved) ^ set(engines)))
        raise ConfigError(
            f"{checkpoint} holds {' and '.join(saved)}, and this run trains "
            f"{' and '.join(engines)}; set {differing} as it was then"
        )
    has_optim = content.pop("with_optim") and with_optim
    random_states = content.pop("random")
    state = RecoverState(**content)
    for name, engine in engines.items():
        engine.load(
            SaveLoadMeta(path=str(checkpoint / name), weight_format="hf", with_optim=has_optim)
        )
        if not has_optim:
            # Fresh moments, but not a second warm-up.
            move_schedule(engine.lr_scheduler, state.step)
        engine.set_version(state.version)
    rank = dist.get_rank() if dist.is_initialized() else 0
    # Another number of processes has no streams of its own to go on with.
    _set_random_state(random_states[rank % len(random_states)])
    return state


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob(f"{_PREFIX}*") if (p / _STATE_FILE).is_file())


def _random_state() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        # Of this process's device alone.
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
