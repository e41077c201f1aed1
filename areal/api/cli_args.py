"""The configuration under AReaL's names; each dataclass lives in ``areal.api.config``."""

from __future__ import annotations

from areal.api.config.batch import MicroBatchSpec, NormConfig
from areal.api.config.cluster import (
    ClusterSpecConfig,
    NameResolveConfig,
    SchedulerConfig,
    SchedulingSpec,
    SchedulingStrategy,
    SchedulingStrategyType,
)
from areal.api.config.dataset import TrainDatasetConfig, ValidDatasetConfig, _DatasetConfig
from areal.api.config.experiment import (
    BaseExperimentConfig,
    DPOConfig,
    GRPOConfig,
    PPOConfig,
    RWConfig,
    SFTConfig,
)
from areal.api.config.generation import GenerationHyperparameters
from areal.api.config.load import (
    apply_preset,
    choose_config_class,
    load_expr_config,
    save_config,
)
from areal.api.config.logging import (
    MemoryProfilerConfig,
    PerfTracerConfig,
    SessionTracerConfig,
    StatsLoggerConfig,
    SwanlabConfig,
    TensorBoardConfig,
    TrackioConfig,
    WandBConfig,
)
from areal.api.config.optimizer import OptimizerConfig
from areal.api.config.ppo import (
    PPOActorConfig,
    PPOCriticConfig,
    RejectionSamplingConfig,
    TeacherConfig,
)
from areal.api.config.rollout import AgentConfig, InferenceEngineConfig
from areal.api.config.run import ModelSpecConfig, RunConfig, VisionSpecConfig
from areal.api.config.servers import SGLangConfig, vLLMConfig
from areal.api.config.timers import EvaluatorConfig, RecoverConfig, SaverConfig, _Timer
from areal.api.config.train_engine import (
    ArchonEngineConfig,
    DPOEngineConfig,
    FSDPEngineConfig,
    TrainEngineConfig,
)
from areal.api.constants import MISSING

__all__ = [
    "MISSING",
    "AgentConfig",
    "ArchonEngineConfig",
    "BaseExperimentConfig",
    "ClusterSpecConfig",
    "DPOConfig",
    "DPOEngineConfig",
    "EvaluatorConfig",
    "FSDPEngineConfig",
    "GRPOConfig",
    "GenerationHyperparameters",
    "InferenceEngineConfig",
    "MemoryProfilerConfig",
    "MicroBatchSpec",
    "ModelSpecConfig",
    "NameResolveConfig",
    "NormConfig",
    "OptimizerConfig",
    "PPOActorConfig",
    "PPOConfig",
    "PPOCriticConfig",
    "PerfTracerConfig",
    "RWConfig",
    "RecoverConfig",
    "RejectionSamplingConfig",
    "RunConfig",
    "SFTConfig",
    "SGLangConfig",
    "SaverConfig",
    "SchedulerConfig",
    "SchedulingSpec",
    "SchedulingStrategy",
    "SchedulingStrategyType",
    "SessionTracerConfig",
    "StatsLoggerConfig",
    "SwanlabConfig",
    "TeacherConfig",
    "TensorBoardConfig",
    "TrackioConfig",
    "TrainDatasetConfig",
    "TrainEngineConfig",
    "ValidDatasetConfig",
    "VisionSpecConfig",
    "WandBConfig",
    "_DatasetConfig",
    "_Timer",
    "apply_preset",
    "choose_config_class",
    "load_expr_config",
    "save_config",
    "vLLMConfig",
]
