"""Workflows: one small file each, named in one table.

A workflow is a ``RolloutWorkflow``: its coroutine ``arun_episode(engine, data)`` turns one dataset
row into one trajectory.
"""

from __future__ import annotations

from typing import Any

from areal.api.registry import lazy_exports, resolve

WORKFLOWS: dict[str, str] = {
    "multi_turn": "areal.workflow.multi_turn:MultiTurnWorkflow",
    "rlvr": "areal.workflow.rlvr:RLVRWorkflow",
    "vision_rlvr": "areal.workflow.vision_rlvr:VisionRLVRWorkflow",
}

_LAZY_IMPORTS: dict[str, str] = {
    target.partition(":")[2]: target.partition(":")[0] for target in WORKFLOWS.values()
}

__all__ = ["WORKFLOWS", "get_workflow", *_LAZY_IMPORTS]

__getattr__, _lazy_dir = lazy_exports(__name__, _LAZY_IMPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)


def get_workflow(name: str) -> Any:
    """Return a workflow class.

    Args:
        name: A registered name, or a dotted path such as ``"my_rl.workflow.debate:DebateWorkflow"``
            (which may also lead to an instance or an agent).

    Raises:
        UnknownNameError: It is neither; the message suggests the nearest registered name.
    """
    return resolve(WORKFLOWS, "workflow", name)
