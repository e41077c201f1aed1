"""How episodes run: context, executor, staleness; every name loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.infra import workflow_context
    from areal.infra.async_task_runner import AsyncTaskRunner, TaskQueueFullError, TimedResult
    from areal.infra.controller.rollout_controller import RolloutController
    from areal.infra.controller.train_controller import TrainController
    from areal.infra.episode_gauge import EpisodeGauge
    from areal.infra.grouped_rollout import GroupedRolloutWorkflow
    from areal.infra.remote_inf_engine import RemoteInfEngine
    from areal.infra.staleness_manager import StalenessManager
    from areal.infra.trajectory import check_trajectory_format
    from areal.infra.workflow_executor import WorkflowExecutor

_LAZY_IMPORTS: dict[str, str] = {
    "AsyncTaskRunner": "areal.infra.async_task_runner",
    "EpisodeGauge": "areal.infra.episode_gauge",
    "GroupedRolloutWorkflow": "areal.infra.grouped_rollout",
    "RemoteInfEngine": "areal.infra.remote_inf_engine",
    "RolloutController": "areal.infra.controller.rollout_controller",
    "StalenessManager": "areal.infra.staleness_manager",
    "TaskQueueFullError": "areal.infra.async_task_runner",
    "TimedResult": "areal.infra.async_task_runner",
    "TrainController": "areal.infra.controller.train_controller",
    "WorkflowExecutor": "areal.infra.workflow_executor",
    "check_trajectory_format": "areal.infra.trajectory",
    "workflow_context": "areal.infra.workflow_context",
}

__all__ = [
    "AsyncTaskRunner",
    "EpisodeGauge",
    "GroupedRolloutWorkflow",
    "RemoteInfEngine",
    "RolloutController",
    "StalenessManager",
    "TaskQueueFullError",
    "TimedResult",
    "TrainController",
    "WorkflowExecutor",
    "check_trajectory_format",
    "workflow_context",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
