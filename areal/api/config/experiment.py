"""A whole run."""

from __future__ import annotations

from dataclasses import dataclass, field

from areal.api.config.check import above, fail
from areal.api.config.cluster import ClusterSpecConfig, SchedulerConfig
from areal.api.config.dataset import TrainDatasetConfig, ValidDatasetConfig
from areal.api.config.generation import GenerationHyperparameters
from areal.api.config.logging import MemoryProfilerConfig, PerfTracerConfig, StatsLoggerConfig
from areal.api.config.ppo import PPOActorConfig, PPOCriticConfig, TeacherConfig
from areal.api.config.rollout import InferenceEngineConfig
from areal.api.config.run import RunConfig
from areal.api.config.schema import inherit_names
from areal.api.config.servers import SGLangConfig, vLLMConfig
from areal.api.config.timers import EvaluatorConfig, RecoverConfig, SaverConfig
from areal.api.config.train_engine import DPOEngineConfig, TrainEngineConfig
from areal.api.constants import MISSING


@dataclass
class BaseExperimentConfig:
    """What every kind of run needs.

    The run ends with the first of ``total_train_epochs``, ``total_train_steps`` and
    ``total_train_n_seqs`` that is reached; null is no limit. A section that asks for experiment,
    trial and file root, and is given none, takes those of the run.
    """

    experiment_name: str = MISSING
    trial_name: str = MISSING
    cluster: ClusterSpecConfig = field(default_factory=ClusterSpecConfig)
    allocation_mode: str = ""
    seed: int = 1
    enable_offload: bool = False
    total_train_epochs: int = 1
    total_train_steps: int | None = None
    total_train_n_seqs: int | None = None
    tokenizer_path: str = ""
    train_dataset: TrainDatasetConfig = field(default_factory=TrainDatasetConfig)
    valid_dataset: ValidDatasetConfig | None = None
    saver: SaverConfig = field(default_factory=SaverConfig)
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)
    stats_logger: StatsLoggerConfig = field(default_factory=StatsLoggerConfig)
    perf_tracer: PerfTracerConfig | None = None
    memory_profiler: MemoryProfilerConfig | None = None
    recover: RecoverConfig = field(default_factory=RecoverConfig)
    sglang: SGLangConfig = field(default_factory=SGLangConfig)
    vllm: vLLMConfig = field(default_factory=vLLMConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    post_exit_hook: str = ""
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        above(self, 0, "total_train_epochs", "total_train_steps", "total_train_n_seqs")
        if abs(self.seed) >= 2**32:
            fail(self, "seed", "fit into 32 bits", self.seed)
        for name in ("experiment_name", "trial_name"):
            value = getattr(self, name)
            if value.startswith(("/", "~")) or ".." in value.split("/"):
                fail(self, name, "name a folder inside cluster.fileroot", value)
        inherit_names(self, self.cluster.fileroot)


@dataclass
class SFTConfig(BaseExperimentConfig):
    """Describes supervised fine-tuning."""

    actor: TrainEngineConfig = field(default_factory=TrainEngineConfig)


@dataclass
class RWConfig(BaseExperimentConfig):
    """Describes the training of a reward model."""

    actor: TrainEngineConfig = field(default_factory=TrainEngineConfig)


@dataclass
class DPOConfig(BaseExperimentConfig):
    """Describes direct preference optimisation."""

    actor: DPOEngineConfig = field(default_factory=DPOEngineConfig)
    ref: DPOEngineConfig = field(default_factory=DPOEngineConfig)


@dataclass
class PPOConfig(BaseExperimentConfig):
    """Describes policy optimisation; without ``eval_gconfig``, evaluation samples like training.

    ``dynamic_bs`` lets a batch shrink by what was rejected instead of filling it up.
    """

    gconfig: GenerationHyperparameters = field(default_factory=GenerationHyperparameters)
    eval_gconfig: GenerationHyperparameters | None = None
    rollout: InferenceEngineConfig = field(default_factory=InferenceEngineConfig)
    actor: PPOActorConfig = field(default_factory=PPOActorConfig)
    ref: PPOActorConfig | None = None
    critic: PPOCriticConfig | None = None
    teacher: TeacherConfig | None = None
    dynamic_bs: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_gconfig is None:
            self.eval_gconfig = self.gconfig.new()


@dataclass
class GRPOConfig(PPOConfig):
    """Describes policy optimisation without a critic."""
