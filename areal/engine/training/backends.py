"""Which train engine serves a backend string."""

from __future__ import annotations

from areal.api.alloc_mode import ModelAllocation
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
