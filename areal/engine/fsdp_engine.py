"""Train engines for Hugging Face models under the names that AReaL gives them."""

from __future__ import annotations

from areal.api.registry import lazy_exports

# Algorithms lie above this package: their engines are looked up when they are used.
_LAZY_IMPORTS: dict[str, str] = {
    "FSDPEngine": "areal.engine.training.by_config",
    "FSDPPPOActor": "areal.trainer.ppo.engines",
    "FSDPPPOCritic": "areal.trainer.ppo.engines",
    "FSDPRWEngine": "areal.trainer.supervised_engines",
    "FSDPLMEngine": "areal.trainer.supervised_engines",
    "FSDPDPOEngine": "areal.trainer.supervised_engines",
}

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
