"""One object in the place of engines in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.infra.controller.algorithms import (
        DPOController,
        LMController,
        PPOActorController,
        PPOCriticController,
        RWController,
    )
    from areal.infra.controller.rollout_controller import RolloutController
    from areal.infra.controller.train_controller import TrainController

_ALGORITHMS = "areal.infra.controller.algorithms"
_LAZY_IMPORTS: dict[str, str] = {
    "DPOController": _ALGORITHMS,
    "LMController": _ALGORITHMS,
    "PPOActorController": _ALGORITHMS,
    "PPOCriticController": _ALGORITHMS,
    "RWController": _ALGORITHMS,
    "RolloutController": "areal.infra.controller.rollout_controller",
    "TrainController": "areal.infra.controller.train_controller",
}

__all__ = [
    "DPOController",
    "LMController",
    "PPOActorController",
    "PPOCriticController",
    "RWController",
    "RolloutController",
    "TrainController",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
