"""Which train engine serves a backend string."""

from __future__ import annotations

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import TrainEngineConfig
from areal.api.errors import ConfigError
from areal.api.registry import import_from_string
from areal.engine.training.engine import PackedTrainEngine

TRAIN_ENGINES: dict[str, str] = {
    "archon": "areal.engine.training.archon:ArchonTrainEngine",
    "fsdp": "areal.engine.training.engine:HFTrainEngine",
}


def train_engine_class(backend: str) -> type[PackedTrainEngine]:
    """Return the engine of an allocation string such as "archon:d1".

    Raises:
        ConfigError: No engine here serves it.
    """
    name = ModelAllocation.from_str(backend).backend
    if name not in TRAIN_ENGINES:
        known = " or ".join(sorted(TRAIN_ENGINES))
        raise ConfigError(f"actor.backend {backend!r} has no train engine here; use {known}")
    found: type[PackedTrainEngine] = import_from_string(TRAIN_ENGINES[name])
    return found


def refuse_unavailable(actor: TrainEngineConfig) -> None:
    """Refuse options that no train engine here has.

    Raises:
        ConfigError: It names the key.
    """
    if actor.use_lora:
        _check_lora(actor)
    if actor.weight_update_mode == "awex":
        raise ConfigError(
            "actor.weight_update_mode awex is not available here; use disk, http or xccl"
        )


def _check_lora(actor: TrainEngineConfig) -> None:
    allocation = ModelAllocation.from_str(actor.backend)
    if allocation.backend != "fsdp" or allocation.world_size > 1:
        raise ConfigError(
            f"actor.use_lora trains in one process on a model of transformers, and actor.backend "
            f"is {actor.backend!r}; set it to fsdp:d1"
        )
    if actor.peft_type.lower() != "lora":
        raise ConfigError(f"actor.peft_type {actor.peft_type!r} is not available here; set lora")
    if not actor.path or actor.init_from_scratch:
        raise ConfigError(
            "actor.use_lora adds to a model that has been trained; name it in actor.path, and set "
            "actor.init_from_scratch to false"
        )
    if actor.is_critic:
        raise ConfigError(
            "actor.use_lora is not available for a critic, whose head is new and trained as a "
            "whole; set use_lora to false"
        )
