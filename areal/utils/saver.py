"""Models saved for use, when they are due."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from areal.api.cli_args import SaverConfig
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.utils.async_checkpoint import AsyncCheckpointManager, SavesModel
from areal.utils.timeutil import PeriodicTimer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin


class Saver:
    """Saves engines in the format of the Hub, below ``fileroot/checkpoints``.

    With ``config.mode`` "async" the model has been copied when ``save`` returns, and is on disk
    after ``finalize``; otherwise ``save`` writes it.

    Args:
        config: Where, when and how.
        ft_spec: The length of the run.
    """

    def __init__(self, config: SaverConfig, ft_spec: FinetuneSpec) -> None:
        self.config = config
        self._timer = PeriodicTimer(config, ft_spec.steps_per_epoch)
        self._checkpoints = AsyncCheckpointManager(config.mode)

    @staticmethod
    def get_save_root(experiment_name: str, trial_name: str, fileroot: str) -> str:
        """Return the folder of all that a trial saves."""
        return os.path.join(fileroot, "checkpoints", getpass.getuser(), experiment_name, trial_name)

    @staticmethod
    def get_model_save_root(
        experiment_name: str, trial_name: str, fileroot: str, name: str = "default"
    ) -> str:
        """Return the folder of all that a trial saves of one model."""
        return os.path.join(Saver.get_save_root(experiment_name, trial_name, fileroot), name)

    @staticmethod
    def get_model_save_path(
        experiment_name: str,
        trial_name: str,
        fileroot: str,
        epoch: int,
        step: int,
        globalstep: int,
        name: str = "default",
    ) -> str:
        """Return the folder of a model after a step; all counts start at 0."""
        root = Saver.get_model_save_root(experiment_name, trial_name, fileroot, name)
        return os.path.join(root, f"epoch{epoch}epochstep{step}globalstep{globalstep}")

    @staticmethod
    def get_recover_checkpoint_path(
        experiment_name: str, trial_name: str, fileroot: str, name: str = "default"
    ) -> str:
        """Return the folder that AReaL resumes a model from; ``RecoverHandler`` has its own."""
        root = Saver.get_model_save_root(experiment_name, trial_name, fileroot, name)
        return os.path.join(root, "recover_checkpoint")

    def save(
        self,
        engine: SavesModel,
        epoch: int,
        step: int,
        global_step: int,
        name: str = "default",
        tokenizer: PreTrainedTokenizerBase | None = None,
        processor: ProcessorMixin | None = None,
        base_model_path: str | None = None,
    ) -> str | None:
        """Save a model if that is due after this step; several models may be, one by one.

        Args:
            engine: Of the model.
            epoch: The place in the run, as are ``step`` and ``global_step``, counted from 0.
            step: In the epoch.
            global_step: In the run.
            name: Of the model.
            tokenizer: Saved with it.
            processor: Saved with it.
            base_model_path: What the model was made from.

        Returns:
            Where it is, or will be; None where nothing was due.

        Raises:
            ConfigError: It is to be saved in a thread, which the engine cannot do.
            OSError: The model before this one could not be written.
        """
        if not self._timer.is_due(global_step + 1):
            return None
        c = self.config
        path = self.get_model_save_path(
            c.experiment_name, c.trial_name, c.fileroot, epoch, step, global_step, name
        )
        self._checkpoints.save(
            engine,
            SaveLoadMeta(
                path=path,
                weight_format="hf",
                with_optim=False,
                tokenizer=tokenizer,
                processor=processor,
                base_model_path=base_model_path,
            ),
        )
        return path

    @property
    def is_async(self) -> bool:
        """Whether a model may still be on its way to the disk after ``save``."""
        return self._checkpoints.is_async

    def maybe_wait_for_staging(self) -> None:
        """Return at once, as ``save`` has waited for the copy."""

    def finalize(self) -> None:
        """Wait until every model is on disk.

        Raises:
            OSError: The last one could not be written.
        """
        self._checkpoints.finalize()

    def state_dict(self) -> dict[str, Any]:
        """Return when something was due last."""
        return self._timer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what ``state_dict`` returned."""
        self._timer.load_state_dict(state)
