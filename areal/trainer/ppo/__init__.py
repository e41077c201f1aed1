"""Policy optimisation: the trainer, and the actor and the critic that it drives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.trainer.ppo.trainer import PPOTrainer

_LAZY_IMPORTS: dict[str, str] = {
    "PPOTrainer": "areal.trainer.ppo.trainer",
}

__all__ = ["PPOTrainer"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
