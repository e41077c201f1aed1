"""The train engines by AReaL's names, which load the model that their configuration names."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from areal.api.cli_args import OptimizerConfig, TrainEngineConfig
from areal.api.scheduler_api import Scheduler
from areal.engine.loading.huggingface import resolve_dtype
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import resolve_device
from areal.engine.training.archon import ArchonTrainEngine
from areal.engine.training.backends import refuse_unavailable
from areal.engine.training.engine import HFTrainEngine, PackedTrainEngine
from areal.infra.controller.train_controller import TrainController
from areal.utils import stats_tracker


class _ByConfig(PackedTrainEngine):
    """Loads ``config.path`` when it is made.

    Args:
        config: Engine settings.

    Raises:
        ConfigError: There is no such checkpoint, or an option asks for what the engine lacks.
    """

    backend_name: ClassVar[str]
    config_class: ClassVar[type[TrainEngineConfig]] = TrainEngineConfig
    controller_class: ClassVar[type[TrainController]] = TrainController

    def __init__(self, config: TrainEngineConfig) -> None:
        refuse_unavailable(config)
        device = resolve_device()
        dtype = resolve_dtype(config.dtype, device)
        seed = 0 if config.init_from_scratch else None
        super().__init__(config, SharedWeights(self.load_model(config, dtype, device, seed)))

    @classmethod
    def from_pretrained(
        cls,
        model: str,
        experiment_name: str,
        trial_name: str,
        dp_size: int = 1,
        tp_size: int = 1,
        learning_rate: float | None = None,
        **fields: Any,
    ) -> Self:
        """Make an engine without a configuration file.

        Args:
            model: Checkpoint folder or hub id.
            experiment_name: Of the run.
            trial_name: Of the run.
            dp_size: Processes that see other data.
            tp_size: Processes that share each matrix.
            learning_rate: None makes a model that is only evaluated.
            fields: Further ones of the engine's configuration.
        """
        optimizer = None if learning_rate is None else OptimizerConfig(lr=learning_rate)
        config = cls.config_class(
            experiment_name=experiment_name,
            trial_name=trial_name,
            path=model,
            backend=f"{cls.backend_name}:d{dp_size}t{tp_size}",
            optimizer=optimizer,
            **fields,
        )
        return cls(config)

    @classmethod
    def as_controller(cls, config: TrainEngineConfig, scheduler: Scheduler) -> TrainController:
        """Return a controller that starts the engine's processes and calls them together."""
        return cls.controller_class(cls, config, scheduler)

    def export_stats(self) -> dict[str, float]:
        """Return what ``stats_tracker`` recorded, the mean over the processes, and forget it.

        All processes call it together.
        """
        has_others = self.data_parallel_world_size > 1
        group = self.data_parallel_group if has_others else None
        return self.from_last_layers(stats_tracker.export_all(reduce_group=group))


class FSDPEngine(_ByConfig, HFTrainEngine):
    """Trains a Hugging Face model, on one process or several by FSDP2."""

    backend_name = "fsdp"


class ArchonEngine(_ByConfig, ArchonTrainEngine):
    """Trains an Archon model."""

    backend_name = "archon"
