"""Saving and resuming a loop of one's own."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from areal.api.cli_args import RecoverConfig
from areal.api.engine_api import InferenceEngine, TrainEngine
from areal.api.errors import ArealError, ConfigError
from areal.api.io_struct import FinetuneSpec, StepInfo, WeightUpdateMeta
from areal.engine.processes import is_first
from areal.infra import RolloutController, TrainController
from areal.trainer.recover import (
    RecoverState,
    find_recover,
    load_recover,
    restore_rollout,
    rollout_state,
    save_recover,
)
from areal.utils.evaluator import Evaluator
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger
from areal.utils.timeutil import PeriodicTimer

logger = logging.getLogger("Recover")

# A controller of them is as good.
Engines = TrainEngine | TrainController | Mapping[str, TrainEngine | TrainController]


class InValidRecoverInfo(ArealError, RuntimeError):  # noqa: N818  (AReaL's name)
    """A checkpoint cannot be resumed from."""


@dataclasses.dataclass
class RecoverInfo:
    """Where a run is; the loop goes on with ``last_step_info.next()``."""

    last_step_info: StepInfo
    saver_info: dict[str, Any]
    evaluator_info: dict[str, Any]
    stats_logger_info: dict[str, Any]
    dataloader_info: dict[str, Any]
    checkpoint_info: dict[str, Any]


class RecoverHandler:
    """Write checkpoints to resume from, when they are due, and resume from the newest.

    A checkpoint holds all engines with their optimisers and schedules, the random streams, the
    place in the dataset, and the rows that an engine's rollouts have under way. It is complete or
    absent: a kill while one is written leaves the one before.

    Args:
        config: Where and when.
        ft_spec: The length of the run.
    """

    def __init__(self, config: RecoverConfig, ft_spec: FinetuneSpec) -> None:
        self.config = config
        self.ft_spec = ft_spec
        self._timer = PeriodicTimer(config, ft_spec.steps_per_epoch)

    @staticmethod
    def recover_info_path(experiment_name: str, trial_name: str, fileroot: str) -> str:
        """Return the folder of a trial's checkpoints."""
        root = Saver.get_save_root(experiment_name, trial_name, fileroot)
        return str(Path(root) / "recover_info")

    def dump(
        self,
        engine: Engines,
        step_info: StepInfo,
        saver: Saver,
        evaluator: Evaluator,
        stats_logger: StatsLogger,
        dataloader: Any,
        tokenizer: Any = None,
        processor: Any = None,
        base_model_path: str | None = None,
    ) -> None:
        """Write a checkpoint after a step if one is due.

        Args:
            engine: Of the model, or several by name, all of which are saved.
            step_info: The step that is over.
            saver: Keeps its periods, as the others do.
            evaluator: See ``saver``.
            stats_logger: See ``saver``.
            dataloader: Has a position that can be saved.
            tokenizer: Not used, as the two after it: who resumes has them.
            processor: See ``tokenizer``.
            base_model_path: See ``tokenizer``.
        """
        engines = _by_name(engine)
        step = step_info.global_step + 1
        if not self.config.enabled or not self._timer.is_due(step):
            return
        infos = {
            "last_step_info": dataclasses.asdict(step_info),
            # What is due after this step happens in this run, before the dump or after it.
            "saver_info": {**saver.state_dict(), "step": step},
            "evaluator_info": {**evaluator.state_dict(), "step": step},
            "stats_logger_info": stats_logger.state_dict(),
            "checkpoint_info": self._timer.state_dict(),
        }
        version = next(iter(engines.values())).get_version()
        rollouts = _rollouts(engines)
        rollout = {} if rollouts is None else rollout_state(rollouts)
        state = RecoverState(step, dataloader.state_dict(), rollout, version, 0, infos)
        save_recover(_folder(self.config), engines, state, not self.config.no_save_optim)

    def load(
        self,
        engine: Engines,
        saver: Saver,
        evaluator: Evaluator,
        stats_logger: StatsLogger,
        dataloader: Any,
        inference_engine: InferenceEngine | RolloutController | None = None,
        weight_update_meta: WeightUpdateMeta | None = None,
        inference_engine_update_from: str = "default",
        colocated_rollout: bool = False,
    ) -> RecoverInfo | None:
        """Put all in place as the newest checkpoint has it.

        Args:
            engine: As it was given to ``dump``.
            saver: Takes up its periods, as the others do.
            evaluator: See ``saver``.
            stats_logger: See ``saver``.
            dataloader: Takes up its position.
            inference_engine: Gets the weights, as the version of the step that comes, and the rows
                that were under way; without it the engine that is connected gets those.
            weight_update_meta: How it gets them.
            inference_engine_update_from: Of several engines, the one whose weights it gets.
            colocated_rollout: Not used: an engine on the same devices gets weights as any other.

        Returns:
            Where the run is; None where there is nothing to resume.

        Raises:
            InValidRecoverInfo: The checkpoint is of other models or of another version.
        """
        if not self.config.enabled:
            return None
        engines = _by_name(engine)
        checkpoint = find_recover(_folder(self.config))
        if checkpoint is None:
            return None
        try:
            state = load_recover(checkpoint, engines, not self.config.no_load_optim)
            infos: dict[str, Any] = state.extra
            last = StepInfo(**infos.pop("last_step_info"))
            found = RecoverInfo(last_step_info=last, dataloader_info=state.dataloader, **infos)
        except (ConfigError, KeyError, TypeError) as error:
            raise InValidRecoverInfo(
                f"{checkpoint} cannot be resumed from: {error}; choose another trial_name, or "
                "recover.mode=disabled to start over"
            ) from error
        saver.load_state_dict(found.saver_info)
        evaluator.load_state_dict(found.evaluator_info)
        stats_logger.load_state_dict(found.stats_logger_info)
        self._timer.load_state_dict(found.checkpoint_info)
        dataloader.load_state_dict(found.dataloader_info)
        rollouts = _rollouts(engines) if inference_engine is None else inference_engine
        if rollouts is not None and is_first():
            restore_rollout(rollouts, state.rollout)
        if inference_engine is not None and weight_update_meta is not None:
            version = last.global_step + 1
            source = engines[inference_engine_update_from]
            source.connect_engine(inference_engine, weight_update_meta)
            source.update_weights(weight_update_meta.with_version(version))
            for each in engines.values():
                each.set_version(version)
            inference_engine.set_version(version)
        logger.info("resumed after step %d", last.global_step)
        return found


def _by_name(engine: Engines) -> dict[str, Any]:
    return dict(engine) if isinstance(engine, Mapping) else {"default": engine}


def _rollouts(engines: Mapping[str, Any]) -> Any:
    """Return what is connected to one of the engines; None where nothing is."""
    connected = [each.inference_engine for each in engines.values()]
    return next((each for each in connected if each is not None), None)


def _folder(config: RecoverConfig) -> Path:
    return Path(
        RecoverHandler.recover_info_path(config.experiment_name, config.trial_name, config.fileroot)
    )


def check_if_recover(config: RecoverConfig, run_id: int = 0) -> bool:
    """Return whether a run goes on from a checkpoint.

    Args:
        config: Where.
        run_id: How often the run was started before; the checkpoint decides, whatever it is.
    """
    return config.enabled and find_recover(_folder(config)) is not None
