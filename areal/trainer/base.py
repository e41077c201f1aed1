"""The loop that all trainers share: steps, logs, saving, evaluation, resuming."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import gc
import logging
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch.distributed as dist

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    BaseExperimentConfig,
    RecoverConfig,
    RWConfig,
    TrainEngineConfig,
    save_config,
)
from areal.api.config.field_check import check_fields, ignored_keys
from areal.api.errors import ConfigError, EpisodeFailureError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.engine.processes import from_first, is_first
from areal.engine.training.engine import PackedTrainEngine
from areal.infra.launch import SERVERS_VARIABLE, is_launched
from areal.trainer.fit import refuse_misfit_of_script
from areal.trainer.identity import new_run_id
from areal.trainer.launching import launch_script
from areal.trainer.recover import (
    RECOVER_FOLDER,
    RecoverState,
    find_recover,
    load_recover,
    save_recover,
)
from areal.trainer.report import EpisodeSample, ReportPaths, RunLog
from areal.trainer.report.no_log import NoLog
from areal.trainer.report.summary import MEAN_STEPS
from areal.trainer.runtime import (
    FolderLock,
    check_columns,
    check_images,
    check_tokenizer,
    limit_threads,
    load_rows,
    make_processor,
    make_tokenizer,
    make_train_engine,
    make_weights,
    names_image_model,
    retire_earlier,
    run_folder,
)
from areal.trainer.stopping import Stopped, StopSignals
from areal.utils import perf_tracer, stats_tracker
from areal.utils.async_checkpoint import AsyncCheckpointManager
from areal.utils.seeding import set_random_seed
from areal.utils.timeutil import PeriodicTimer

if TYPE_CHECKING:
    from transformers import ProcessorMixin

logger = logging.getLogger("Trainer")

# Where nothing is configured, a run that can be resumed writes a checkpoint this often.
DEFAULT_RECOVER_SECONDS = 60
FIRST_RECOVER_SECONDS = 5
MODEL_FOLDER = "model"
ADAPTER_FOLDER = "adapter"
CHECKPOINT_FOLDER = "checkpoints"
EVAL_STATS = "eval-rollout"  # what workflow_context.stat_scope() returns in an evaluation


class BaseTrainer(ABC):
    """A model, its engine and its dataset, and runs the loop.

    Use it as a context manager: leaving the block writes the report, after an error too.

    Args:
        config: Of the experiment; ``config.actor`` describes the trained model.
        train_dataset: Rows; None loads ``config.train_dataset``.
        valid_dataset: Rows; None does not evaluate, whatever ``config.valid_dataset`` names.
    """

    actor_config: TrainEngineConfig
    columns: tuple[str, ...] = ()  # what the trainer itself reads of a row

    def __init__(self, config: Any, train_dataset: Any = None, valid_dataset: Any = None) -> None:
        self.config: BaseExperimentConfig = config
        self.actor_config = config.actor
        check_actor(config)
        launch_script(config)
        set_random_seed(config.seed, key="trainer0")
        self.folder = run_folder(config)
        self.tokenizer = make_tokenizer(config, self.actor_config, train_dataset, valid_dataset)
        self.train_dataset = train_dataset
        if train_dataset is None:
            self.train_dataset = load_rows(
                config.train_dataset, self.tokenizer, lambda: self.processor
            )
        self.valid_dataset = valid_dataset
        check_columns(self.train_dataset, self.columns, "train_dataset")
        if self.valid_dataset is not None:
            check_columns(self.valid_dataset, self.columns, "valid_dataset")
        self.weights = make_weights(config, self.actor_config, self.tokenizer)
        check_tokenizer(self.tokenizer, self.weights)
        if self.weights.lm.takes_images:
            check_images(self.weights, self.processor)
        limit_threads(self.weights)
        self.train_dataset = self._usable_rows(self.train_dataset, "train_dataset")
        if self.valid_dataset is not None:
            self.valid_dataset = self._usable_rows(self.valid_dataset, "valid_dataset")
        self.actor = make_train_engine(self.actor_config, self.weights)
        self.actor.create_process_group()
        # What is trained, by the name of its folder in a checkpoint.
        self.trained: dict[str, PackedTrainEngine] = {MODEL_FOLDER: self.actor}
        self.train_dataloader = self._make_dataloader(self.train_dataset, config.train_dataset)
        self.steps_per_epoch = max(1, len(self.train_dataloader))
        self.total_steps = self._count_steps(config.total_train_epochs)
        self.step = 0
        self.is_complete = False  # an earlier run did all of it
        # In the run's folder: what nobody needs after the run.
        self.transient_folders: tuple[str, ...] = ()
        self.run_id = ""  # of the run that is continued, or a new one
        self.num_sequences = 0
        self._recent: deque[float] = deque(maxlen=MEAN_STEPS)  # of what the run has a goal for
        self.run_log: RunLog | NoLog | None = None
        self._checkpoints = AsyncCheckpointManager(config.saver.mode)
        self._lock: FolderLock | None = None
        self.report: ReportPaths | None = None

    @functools.cached_property
    def processor(self) -> ProcessorMixin | None:
        """What prepares images; None for a model of text alone."""
        return make_processor(self.config, self.actor_config, self.tokenizer)

    # --- what a trainer fills in

    @abstractmethod
    def _make_dataloader(self, dataset: Any, config: Any) -> Any:
        """Return a dataloader with a position that can be saved."""

    @abstractmethod
    def _train_step(self) -> tuple[dict[str, Any], Sequence[EpisodeSample]]:
        """Do one step and return its statistics and some episodes for a person to read."""

    @abstractmethod
    def _evaluate(self) -> dict[str, Any]:
        """Return the statistics of an evaluation."""

    def _usable_rows(self, rows: Any, key: str) -> Any:
        """Return the rows of a dataset that can be trained on.

        Args:
            rows: Of which the first one has ``columns``.
            key: Of the dataset's section in the configuration, for messages.

        Raises:
            DatasetError: One is broken, or none is left.
        """
        return rows

    def _rollout_state(self) -> dict[str, Any]:
        """Return what else must be saved to resume."""
        return {}

    def _restore_rollout(self, state: dict[str, Any]) -> None:
        """Take up what ``_rollout_state`` returned."""
        assert not state, "a trainer that saves something must also restore it"

    def _goal(self) -> tuple[str, float | None]:
        """Return a statistic and the bound above which its mean over ten steps ends the run."""
        return "", None

    def _is_finished_early(self) -> bool:
        """Return whether the run has reached its aim."""
        _, bound = self._goal()
        recent = self._recent
        return bound is not None and len(recent) == MEAN_STEPS and sum(recent) / MEAN_STEPS > bound

    # --- the loop

    def _count_steps(self, epochs: int) -> int:
        limits = [epochs * self.steps_per_epoch]
        if self.config.total_train_steps is not None:
            limits.append(self.config.total_train_steps)
        if self.config.total_train_n_seqs is not None:
            limits.append(max(1, self.config.total_train_n_seqs // self._sequences_per_step()))
        return min(limits)

    def _sequences_per_step(self) -> int:
        return self.config.train_dataset.batch_size

    def _start(self, total_epochs: int | None = None) -> None:
        """Make the optimiser, resume, open the logs."""
        if total_epochs is not None:
            self.total_steps = self._count_steps(total_epochs)
        spec = FinetuneSpec(
            total_train_epochs=1,
            dataset_size=self.total_steps * self.config.train_dataset.batch_size,
            train_batch_size=self.config.train_dataset.batch_size,
        )
        if is_first():
            # Of a launched run the launcher did, as its servers write there already.
            if not is_launched():
                retire_earlier(self.config)
            self._lock = FolderLock(self.folder)
        for engine in self.trained.values():
            engine.initialize(None, spec)
        self._resume()
        if self.is_complete:
            return
        self.run_id = self.run_id or from_first(new_run_id())
        self._start_tracer()
        stats_tracker.export_all()  # of an earlier run in this process
        if not is_first():
            self.run_log = NoLog()
            return
        if ignored := ignored_keys(self.config, bool(os.environ.get(SERVERS_VARIABLE))):
            logger.warning("set without effect (docs/en/configuration.md): %s", ", ".join(ignored))
        self.run_log = RunLog(
            self.folder, self.config, self.total_steps, resume_step=self.step, run_id=self.run_id
        )
        save_config(self.config, self.folder / "config.yaml")

    def _start_tracer(self) -> None:
        if self.config.perf_tracer is None:
            return
        rank = dist.get_rank() if dist.is_initialized() else 0
        tracer = perf_tracer.configure(self.config.perf_tracer, rank, "trainer")
        tracer.save(self.step - 1)  # the steps before are over

    def _loop(self, total_epochs: int | None = None) -> None:
        """Run from where the run is to its end, and save the model."""
        if self.run_log is None:
            self._start(total_epochs)
        if self.is_complete:
            if is_first():
                logger.warning(
                    "nothing to do: this trial is complete, and %s holds its %d steps; "
                    "total_train_steps=N goes on, another trial_name runs it again, and "
                    "recover.mode=disabled starts over",
                    self.folder,
                    self.step,
                )
            return
        assert self.run_log is not None
        timers = self._timers()
        # What start-up left behind lives as long as the run; the collector need not look at it
        # again.
        gc.collect()
        gc.freeze()
        if (
            self.step == 0
            and self.config.evaluator.eval_before_train
            and self.valid_dataset is not None
        ):
            self.run_log.eval(0, self._evaluated())
        try:
            with StopSignals() as stop:
                while self.step < self.total_steps:
                    if self._step_and_log(self.run_log, timers):
                        break
                    self._stop_if_asked(stop)
        except EpisodeFailureError:
            # A grader that broke, or a task that is solved, is no reason to lose the training.
            self._save_final_model()
            raise
        # In this order: a trial that is marked complete has its model.
        self._save_final_model()
        self._save_recover(is_done=True)

    def _stop_if_asked(self, stop: StopSignals) -> None:
        """End the run with a checkpoint where a signal asked for it.

        Raises:
            Stopped: One did.
        """
        # A launched rank is ended by its launcher, which waits for no step.
        number = stop.number if is_launched() else from_first(stop.number)
        if number is not None:
            self._save_recover(is_done=False)
            raise Stopped(number)

    def _step_and_log(self, run_log: RunLog | NoLog, timers: dict[str, PeriodicTimer]) -> bool:
        """Do one step and what is due after it, and say whether the run has reached its aim."""
        started = time.perf_counter()
        with perf_tracer.trace_scope("train_step", "compute"):
            stats, episodes = self._train_step()
        perf_tracer.save(self.step)
        self.step += 1
        # What workflows and rewards recorded; what the trainer itself records wins.
        stats = stats_tracker.export_all() | stats
        stats["step_time_s"] = time.perf_counter() - started
        if self._goal()[0] in stats:
            self._recent.append(stats[self._goal()[0]])
        is_done = self._is_finished_early()
        # A clock differs from process to process, and what follows they do together.
        is_due = from_first({name: timer.is_due(self.step) for name, timer in timers.items()})
        if is_due["saver"]:
            self._save_model(self.folder / CHECKPOINT_FOLDER / f"step_{self.step:08d}")
        run_log.step(self.step, stats, episodes)
        if self.valid_dataset is not None and is_due["evaluator"]:
            run_log.eval(self.step, self._evaluated())
        if is_due["recover"] and not is_done:
            self._save_recover(is_done=False)
        return is_done

    def _evaluated(self) -> dict[str, Any]:
        """Evaluate; the result holds what the workflows recorded meanwhile."""
        evaluated = self._evaluate()
        # Only of evaluation: rollouts for training may go on, and count for the next step.
        return stats_tracker.get(EVAL_STATS).export() | evaluated

    def _timers(self) -> dict[str, PeriodicTimer]:
        recover = self.config.recover
        first = {}
        if recover.enabled and not (recover.freq_steps or recover.freq_epochs or recover.freq_secs):
            recover = dataclasses.replace(recover, freq_secs=DEFAULT_RECOVER_SECONDS)
            # Whoever tries a run out kills it soon.
            first = {"recover": FIRST_RECOVER_SECONDS}
        sections = {
            "saver": self.config.saver,
            "evaluator": self.config.evaluator,
            "recover": recover,
        }
        return {
            name: PeriodicTimer(section, self.steps_per_epoch, self.step, first.get(name))
            for name, section in sections.items()
        }

    # --- files

    def _save_model(self, path: Path) -> None:
        """Save the actor at a path, and what else is trained beside it."""
        # The actor last: where it is, the others are.
        for name, engine in reversed(self.trained.items()):
            target = path if engine is self.actor else path.with_name(f"{path.name}_{name}")
            self._checkpoints.save(engine, self._model_meta(target))

    def _save_final_model(self) -> None:
        """Save what is trained, an adapter merged into its model and by itself."""
        path = self.folder / MODEL_FOLDER
        self._checkpoints.finalize()
        if self.actor_config.use_lora:
            self._save_model(self.folder / ADAPTER_FOLDER)
            self.actor.save_merged(self._model_meta(path))
        else:
            self._save_model(path)

    def _model_meta(self, path: Path) -> SaveLoadMeta:
        return SaveLoadMeta(
            path=str(path),
            weight_format="hf",
            with_optim=False,
            tokenizer=self.tokenizer,
            processor=self.processor if self.weights.lm.takes_images else None,
        )

    def _save_recover(self, is_done: bool) -> None:
        # Who resumes from here saves none of the models before again.
        self._checkpoints.finalize()
        recover: RecoverConfig = self.config.recover
        if not recover.enabled:
            return
        state = RecoverState(
            step=self.step,
            dataloader=self.train_dataloader.state_dict(),
            rollout=self._rollout_state(),
            version=self.actor.get_version(),
            num_sequences=self.num_sequences,
            extra={
                "is_done": is_done,
                "total_steps": self.total_steps,
                "run_id": self.run_id,
                "trainer": self._trainer_name(),
                "recent": list(self._recent),
                "optimizers": self._optimizer_settings(),
            },
        )
        save_recover(self.folder / RECOVER_FOLDER, self.trained, state, not recover.no_save_optim)

    def _resume(self) -> None:
        """Continue from the newest checkpoint of this trial, if there is one."""
        if not self.config.recover.enabled:
            return
        checkpoint = find_recover(self.folder / RECOVER_FOLDER)
        if checkpoint is None:
            return
        try:
            state = load_recover(checkpoint, self.trained, not self.config.recover.no_load_optim)
        except ConfigError as error:
            raise ConfigError(
                f"this trial began with another model, or its checkpoint is damaged: {error}. "
                "Choose another trial_name, or recover.mode=disabled to start it over"
            ) from error
        began = state.extra.get("trainer", self._trainer_name())
        if began != self._trainer_name():
            raise ConfigError(
                f"this trial began with {began}, and {self._trainer_name()} cannot go on with it: "
                "choose another trial_name, and name its model in actor.path, or set "
                "recover.mode=disabled to start it over"
            )
        self.step, self.num_sequences = state.step, state.num_sequences
        self.run_id = state.extra.get("run_id", "")
        planned = state.extra["total_steps"]
        # A trial that is complete goes on where more steps are asked for than it had planned.
        if state.extra.get("is_done") and self.total_steps <= planned:
            self.is_complete = True
            if planned != self.total_steps:
                raise ConfigError(
                    f"this trial is complete: {self.folder} holds its {state.step} steps, of "
                    f"{planned} that were planned, and {self.total_steps} are asked for. Ask for "
                    "more to go on, or choose another trial_name"
                )
            return
        self._use_changed_optimizers(state.extra.get("optimizers", {}))
        self._recent.extend(state.extra.get("recent", ()))
        self.train_dataloader.load_state_dict(state.dataloader)
        self._restore_rollout(state.rollout)
        logger.info("resumed from step %d", state.step)

    @classmethod
    def _trainer_name(cls) -> str:
        """Return the name of the trainer of ours that this is, or is a script's subclass of."""
        ours = (base for base in cls.__mro__ if base.__module__.startswith("areal."))
        return next(ours).__name__

    def _optimizer_settings(self) -> dict[str, dict[str, Any]]:
        engines = self.trained.items()
        return {name: dataclasses.asdict(engine.config.optimizer) for name, engine in engines}

    def _use_changed_optimizers(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        """Let the configuration win where it has other settings than the run was begun with.

        Unchanged ones stay as they were saved: a loop may have set a rate of its own.
        """
        for name, settings in self._optimizer_settings().items():
            saved = before.get(name, settings)
            changes = [
                f"{key} {saved.get(key)} -> {value}"
                for key, value in settings.items()
                if saved.get(key) != value
            ]
            if changes:
                self.trained[name].use_configured_optimizer()
                section = "actor" if name == MODEL_FOLDER else name
                logger.warning("goes on with another %s.optimizer: %s", section, ", ".join(changes))

    # --- life

    def close(self, status: str = "completed") -> ReportPaths | None:
        """Stop engines and write the report; a second call returns the first one's result."""
        try:
            self._checkpoints.close()
        finally:
            self._close(status)
        return self.report

    def _close(self, status: str) -> None:
        if self.run_log is not None:
            perf_tracer.save(force=True)
            _release_freed_memory()  # What the report takes would come on top of it.
            self.report = self.run_log.close(status)
        for engine in self.trained.values():
            engine.destroy()
        if self._lock is not None:
            # Once, and while the folder is still this run's.
            for name in self.transient_folders:
                shutil.rmtree(self.folder / name, ignore_errors=True)
            self._lock.release()
            self._lock = None
        gc.unfreeze()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        is_stop = isinstance(error, (KeyboardInterrupt, SystemExit))
        try:
            self.close("interrupted" if is_stop else f"failed: {type(error).__name__}: {error}")
        except Exception:  # the run's own error is the one to raise
            logger.exception("the report could not be written")


def _release_freed_memory() -> None:
    """Give back what was freed and the C library keeps, where it is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def check_actor(config: Any) -> None:
    """Refuse a configuration whose actor cannot be trained as it asks.

    Raises:
        ConfigError: Names the keys, and what to set.
    """
    refuse_misfit_of_script(config)
    if config.actor.optimizer is None:
        raise ConfigError(
            "actor.optimizer is null: nothing would be trained; set actor.optimizer.lr"
        )
    for name in () if isinstance(config, RWConfig) else ("actor", "ref"):
        section = getattr(config, name, None)
        if section is not None and section.is_critic:
            raise ConfigError(
                f"{name}.is_critic makes a value model, which has no log-probabilities; set it to "
                "false. A value model is described in critic, a reward model is of type rw"
            )
    check_fields(config)
    _check_sizes(config)
    backend = config.actor.backend
    if ModelAllocation.from_str(backend).world_size > 1 and names_image_model(config):
        raise ConfigError(
            f"actor.backend {backend!r} shares the model among processes, which a model that takes "
            "images is not; set it to fsdp:d1"
        )


def _check_sizes(config: Any) -> None:
    """Refuse models that cannot share the processes of the actor."""
    actor = config.actor.backend
    num_processes = ModelAllocation.from_str(actor).parallel.world_size
    for name in ("ref", "critic"):
        section = getattr(config, name, None)
        if section is None:
            continue
        found = ModelAllocation.from_str(section.backend).parallel.world_size
        if found != num_processes:
            raise ConfigError(
                f"{name}.backend {section.backend!r} takes {found} processes and actor.backend "
                f"{actor!r} {num_processes}; both run in the same ones"
            )
