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
        raise ConfigError(
            "actor.use_lora is not available here; set it to false to train all weights"
        )
    if actor.weight_update_mode == "awex":
        raise ConfigError(
            "actor.weight_update_mode awex is not available here; use disk, http or xccl"
        )
