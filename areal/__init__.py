"""Asynchronous reinforcement learning of language models, with AReaL's interfaces."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

__version__ = "0.1.0"


def _refuse_to_shadow_areal() -> None:
    """Raise where AReaL itself is installed: one of the two would hide the other.

    Looks at folder names only: ``importlib.metadata`` would cost more than all of ``areal.api``.

    Raises:
        ImportError: There is a distribution named areal on ``sys.path``.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip file, or a folder that is not there
            continue
        for name in names:
            stem, _, kind = name.lower().rpartition(".")
            if kind in ("dist-info", "egg-info", "egg-link") and stem.split("-")[0] == "areal":
                raise ImportError(
                    f"AReaL is installed in this environment ({os.path.join(folder, name)}), and "
                    "areal-lite has the same import name. Uninstall one of them "
                    "(pip uninstall areal, or pip uninstall areal-lite), or give each an "
                    "environment of its own."
                )


_refuse_to_shadow_areal()

from areal.api.registry import lazy_exports  # noqa: E402  (nothing is imported before the check)

if TYPE_CHECKING:
    from areal.infra import WorkflowExecutor, workflow_context
    from areal.infra.controller.rollout_controller import RolloutController
    from areal.infra.controller.train_controller import TrainController
    from areal.infra.platforms import current_platform
    from areal.infra.staleness_manager import StalenessManager
    from areal.trainer import DPOTrainer, PPOTrainer, RWTrainer, SFTTrainer

_LAZY_IMPORTS: dict[str, str] = {
    "DPOTrainer": "areal.trainer",
    "PPOTrainer": "areal.trainer",
    "RWTrainer": "areal.trainer",
    "RolloutController": "areal.infra.controller.rollout_controller",
    "SFTTrainer": "areal.trainer",
    "StalenessManager": "areal.infra.staleness_manager",
    "TrainController": "areal.infra.controller.train_controller",
    "WorkflowExecutor": "areal.infra",
    "current_platform": "areal.infra.platforms",
    "workflow_context": "areal.infra.workflow_context",
}

__all__ = [
    "DPOTrainer",
    "PPOTrainer",
    "RWTrainer",
    "RolloutController",
    "SFTTrainer",
    "StalenessManager",
    "TrainController",
    "WorkflowExecutor",
    "current_platform",
    "workflow_context",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
