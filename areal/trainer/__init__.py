"""Trainers: the loops and their wiring, loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.trainer.dpo import DPOTrainer
    from areal.trainer.ppo import PPOTrainer
    from areal.trainer.rw import RWTrainer
    from areal.trainer.sft import SFTTrainer

_LAZY_IMPORTS: dict[str, str] = {
    "DPOTrainer": "areal.trainer.dpo",
    "PPOTrainer": "areal.trainer.ppo",
    "RWTrainer": "areal.trainer.rw",
    "SFTTrainer": "areal.trainer.sft",
}

__all__ = ["DPOTrainer", "PPOTrainer", "RWTrainer", "SFTTrainer"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
