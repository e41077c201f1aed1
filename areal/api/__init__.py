"""Contracts of the training package: light to import, every name loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.api.alloc_mode import (
        AllocationType,
        FSDPParallelStrategy,
        MegatronParallelStrategy,
        ModelAllocation,
        ParallelStrategy,
    )
    from areal.api.engine_api import InferenceEngine, TrainEngine
    from areal.api.io_struct import (
        FinetuneSpec,
        LocalInfServerInfo,
        ModelRequest,
        ModelResponse,
        ParamSpec,
        RolloutStat,
        SaveLoadMeta,
        StepInfo,
        WeightUpdateMeta,
    )
    from areal.api.reward_api import AsyncRewardWrapper
    from areal.api.scheduler_api import Job, Scheduler, Worker
    from areal.api.workflow_api import AgentWorkflow, RolloutWorkflow, WorkflowLike

_LAZY_IMPORTS: dict[str, str] = {
    "AgentWorkflow": "areal.api.workflow_api",
    "AllocationType": "areal.api.alloc_mode",
    "AsyncRewardWrapper": "areal.api.reward_api",
    "FSDPParallelStrategy": "areal.api.alloc_mode",
    "FinetuneSpec": "areal.api.io_struct",
    "InferenceEngine": "areal.api.engine_api",
    "Job": "areal.api.scheduler_api",
    "LocalInfServerInfo": "areal.api.io_struct",
    "MegatronParallelStrategy": "areal.api.alloc_mode",
    "ModelAllocation": "areal.api.alloc_mode",
    "ModelRequest": "areal.api.io_struct",
    "ModelResponse": "areal.api.io_struct",
    "ParallelStrategy": "areal.api.alloc_mode",
    "ParamSpec": "areal.api.io_struct",
    "RolloutStat": "areal.api.io_struct",
    "RolloutWorkflow": "areal.api.workflow_api",
    "SaveLoadMeta": "areal.api.io_struct",
    "Scheduler": "areal.api.scheduler_api",
    "StepInfo": "areal.api.io_struct",
    "TrainEngine": "areal.api.engine_api",
    "WeightUpdateMeta": "areal.api.io_struct",
    "Worker": "areal.api.scheduler_api",
    "WorkflowLike": "areal.api.workflow_api",
}

__all__ = [  # noqa: RUF022  (the order of contract: what a workflow needs first)
    "RolloutWorkflow",
    "AgentWorkflow",
    "WorkflowLike",
    "AsyncRewardWrapper",
    "InferenceEngine",
    "TrainEngine",
    "ModelRequest",
    "ModelResponse",
    "WeightUpdateMeta",
    "SaveLoadMeta",
    "StepInfo",
    "FinetuneSpec",
    "ParamSpec",
    "RolloutStat",
    "LocalInfServerInfo",
    "AllocationType",
    "ModelAllocation",
    "ParallelStrategy",
    "FSDPParallelStrategy",
    "MegatronParallelStrategy",
    "Scheduler",
    "Worker",
    "Job",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
