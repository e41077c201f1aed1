"""Where statistics go besides the run's own files: TensorBoard, Weights & Biases and others."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from areal.api.errors import ConfigError
from areal.trainer.report.config_view import find_block

Stats = Mapping[str, int | float | None]
FLUSH_S = 10.0


class Tracker(Protocol):
    """Takes the statistics of a step to some service or file."""

    def log(self, step: int, stats: Stats) -> None:
        """Send one row; names are final ("reward", "eval/reward")."""

    def close(self) -> None:
        """Send what is left; a second call does nothing."""


class TensorBoardTracker:
    """A writer of TensorBoard's event files.

    It uses TensorBoard's own record writer and messages, not its event writer: that one starts a
    thread and imports TensorFlow where it is installed. A row is one event with all its values.
    """

    def __init__(
        self, log_dir: Path, resume_step: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._log_dir = log_dir
        self._resume_step = resume_step
        self._clock = clock
        self._file: Any = None
        self._flushed_at = clock()

    def _open(self) -> None:
        """Open the file at the first row, so that a run does not wait for protobuf to start."""
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._log_dir.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(self._clock())}.{socket.gethostname()}.{os.getpid()}"
        self._file = (self._log_dir / name).open("ab")
        self._writer = RecordWriter(self._file)
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        # A session start makes TensorBoard drop what a killed run wrote from that step on.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(file_version="brain.Event:2")
        self._write(step=self._resume_step + 1, session_log=start)

    def _write(self, **content: Any) -> None:
        event = self._event(wall_time=self._clock(), **content)
        self._writer.write(event.SerializeToString())

    def log(self, step: int, stats: Stats) -> None:
        """Add one event; the system gets it at the latest ten seconds later."""
        if self._file is None:
            self._open()
        value = self._summary.Value
        values = [
            value(tag=k, simple_value=float("nan") if v is None else v) for k, v in stats.items()
        ]
        self._write(step=step, summary=self._summary(value=values))
        if self._clock() - self._flushed_at >= FLUSH_S:
            self._flushed_at = self._clock()
            self._writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None and not self._file.closed:
            self._writer.flush()
            self._file.close()


class ModuleTracker:
    """Logs through a package with the three functions of Weights & Biases: init, log, finish."""

    def __init__(self, module: Any, init_args: Mapping[str, Any]) -> None:
        self._module = module
        self._is_open = True
        module.init(**{name: value for name, value in init_args.items() if value is not None})

    def log(self, step: int, stats: Stats) -> None:
        """Send one row; a value that was not finite is left out."""
        self._module.log({k: v for k, v in stats.items() if v is not None}, step=step)

    def close(self) -> None:
        """End the remote run."""
        if self._is_open:
            self._is_open = False
            self._module.finish()


def _require(package: str, block: str) -> Any:
    """Import a tracker's package.

    Raises:
        ConfigError: It is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"stats_logger.{block}.mode asks for the package {package}, which is not installed "
            f"here: pip install {package}, or set stats_logger.{block}.mode=disabled"
        )
    return importlib.import_module(package)


def _run_name(config: Any) -> str:
    """Return ``"experiment_trial"``, the default name of a remote run."""
    names = [find_block(config, "experiment_name"), find_block(config, "trial_name")]
    return "_".join(str(name) for name in names if name) or "run"


def _wandb(block: Any, config: Any, plain: Mapping[str, Any], log_dir: Path) -> Tracker:
    if block.wandb_api_key:
        os.environ["WANDB_API_KEY"] = block.wandb_api_key
    if block.wandb_base_url:
        os.environ["WANDB_BASE_URL"] = block.wandb_base_url
    name = block.name or _run_name(config)
    suffix = f"_{block.id_suffix}" if block.id_suffix else ""
    init_args = {
        "mode": block.mode,
        "project": block.project or find_block(config, "experiment_name"),
        "entity": block.entity,
        "name": name,
        "group": block.group,
        "job_type": block.job_type,
        "notes": block.notes,
        "tags": block.tags,
        "config": {**plain, **(block.config or {})},
        "dir": str(log_dir),
        "id": f"{_run_name(config)}{suffix}",
        "resume": "allow",
    }
    return ModuleTracker(_require("wandb", "wandb"), init_args)


def _swanlab(block: Any, config: Any, plain: Mapping[str, Any], log_dir: Path) -> Tracker:
    module = _require("swanlab", "swanlab")
    if block.api_key:
        module.login(api_key=block.api_key)
    init_args = {
        "mode": block.mode,
        "project": block.project or find_block(config, "experiment_name"),
        "experiment_name": block.name or _run_name(config),
        "config": {**plain, **(block.config or {})},
        "logdir": block.logdir or str(log_dir / "swanlab"),
    }
    return ModuleTracker(module, init_args)


def _trackio(block: Any, config: Any, plain: Mapping[str, Any], log_dir: Path) -> Tracker:
    del log_dir  # trackio keeps its runs in a place of its own
    init_args = {
        "project": block.project or find_block(config, "experiment_name") or "areal",
        "name": block.name or _run_name(config),
        "space_id": block.space_id,
        "config": dict(plain),
        "resume": "allow",
    }
    return ModuleTracker(_require("trackio", "trackio"), init_args)


# By the name of the block under `stats_logger`; TensorBoard is apart: it is on unless switched off.
SERVICES: dict[str, Callable[[Any, Any, Mapping[str, Any], Path], Tracker]] = {
    "swanlab": _swanlab,
    "trackio": _trackio,
    "wandb": _wandb,
}


def open_trackers(
    config: Any, plain: Mapping[str, Any], log_dir: Path, resume_step: int
) -> list[Tracker]:
    """Return the trackers that ``config.stats_logger`` asks for, opened.

    Args:
        config: The experiment's configuration; without ``stats_logger`` only TensorBoard is on.
        plain: The same as plain data without secrets, for services that show it.
        log_dir: The run's folder; TensorBoard's path "auto" is ``tensorboard/`` in it.
        resume_step: Finished steps; later ones that a killed run wrote are superseded.

    Raises:
        ConfigError: A service is asked for whose package is missing.
    """
    trackers: list[Tracker] = []
    stats_logger = find_block(config, "stats_logger")
    for name, make in SERVICES.items():
        block = find_block(stats_logger, name)
        if block is not None and block.mode != "disabled":
            trackers.append(make(block, config, plain, log_dir))
    block = find_block(stats_logger, "tensorboard")
    path = "auto" if block is None else block.path
    if path:
        folder = log_dir / "tensorboard" if path == "auto" else Path(path)
        trackers.append(TensorBoardTracker(folder, resume_step))
    return trackers
