"""Statistics of a loop of one's own, sent where ``stats_logger`` is configured to."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from areal.api.cli_args import BaseExperimentConfig, StatsLoggerConfig
from areal.api.io_struct import FinetuneSpec
from areal.trainer.report.config_view import plain_config
from areal.trainer.report.console import number_text
from areal.trainer.report.records import plain_stats
from areal.trainer.report.trackers import Tracker, open_trackers


class StatsLogger:
    """Prints statistics and sends them to the trackers; in rank 0 alone.

    Args:
        config: Of the experiment; ``config.stats_logger`` is where.
        ft_spec: The length of the run.
    """

    def __init__(self, config: BaseExperimentConfig, ft_spec: FinetuneSpec) -> None:
        self.config = config.stats_logger
        self.ft_spec = ft_spec
        self._experiment = config
        self._last_step = -1
        self._trackers: list[Tracker] | None = None
        self._is_silent = os.environ.get("RANK", "0") != "0"

    @staticmethod
    def get_log_path(config: StatsLoggerConfig) -> str:
        """Return the folder of a trial's logs, made if missing."""
        path = os.path.join(
            config.fileroot,
            "logs",
            getpass.getuser(),
            config.experiment_name,
            config.trial_name,
        )
        os.makedirs(path, exist_ok=True)
        return path

    def commit(
        self,
        epoch: int,
        step: int,
        global_step: int,
        data: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ) -> None:
        """Print and send the statistics of a step.

        Args:
            epoch: The place in the run, as are ``step`` and ``global_step``, counted from 0.
            step: In the epoch.
            global_step: In the run.
            data: Numbers by name; several of them get steps of their own, one after the other.
        """
        if self._is_silent:
            return
        if self._trackers is None:  # not before it is known where the run goes on
            folder = Path(self.get_log_path(self.config))
            plain = plain_config(self._experiment)
            self._trackers = open_trackers(self._experiment, plain, folder, self._last_step)
        place = (
            f"epoch {epoch + 1}/{self.ft_spec.total_train_epochs}, "
            f"step {step + 1}/{self.ft_spec.steps_per_epoch}, "
            f"{global_step + 1}/{self.ft_spec.total_train_steps} in all"
        )
        for stats in [data] if isinstance(data, Mapping) else data:
            numbers = plain_stats(stats)
            self._last_step = max(global_step, self._last_step + 1)
            for tracker in self._trackers:
                tracker.log(self._last_step, numbers)
            table = Table(show_header=False)
            for name, value in sorted(numbers.items()):
                table.add_row(name, number_text(value))
            console = Console(stderr=True, soft_wrap=True)
            console.print(place, highlight=False)
            console.print(table)

    def close(self) -> None:
        """Send what is left; a second call does nothing."""
        for tracker in self._trackers or ():
            tracker.close()

    def state_dict(self) -> dict[str, int]:
        """Return the step that was sent last."""
        return {"last_step": self._last_step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Take up what ``state_dict`` returned; call it before the first ``commit``."""
        self._last_step = state["last_step"]
