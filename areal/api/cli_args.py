"""The configuration under AReaL's names; each dataclass lives in ``areal.api.config``."""

from __future__ import annotations

from areal.api.config.generation import GenerationHyperparameters

__all__ = ["GenerationHyperparameters"]
