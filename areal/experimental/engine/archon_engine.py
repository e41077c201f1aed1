"""Train engines for Archon models under the names that AReaL gives them."""

from __future__ import annotations

from areal.api.registry import lazy_exports

# Engines lie above this package: the names are looked up when they are used.
_LAZY_IMPORTS: dict[str, str] = {
    "ArchonEngine": "areal.engine.training.by_config",
    "ArchonPPOActor": "areal.trainer.ppo.engines",
    "ArchonPPOCritic": "areal.trainer.ppo.engines",
    "ArchonRWEngine": "areal.trainer.supervised_engines",
    "ArchonLMEngine": "areal.trainer.supervised_engines",
    "ArchonDPOEngine": "areal.trainer.supervised_engines",
}

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
