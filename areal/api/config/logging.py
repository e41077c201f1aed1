"""Where statistics and traces go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.config.check import above, at_least
from areal.api.config.defaults import ours
from areal.api.constants import MISSING


@dataclass
class WandBConfig:
    """Sets Weights & Biases; "disabled" writes nothing there."""

    mode: str = "disabled"
    wandb_base_url: str = ""
    wandb_api_key: str = ""
    entity: str | None = None
    project: str | None = None
    name: str | None = None
    job_type: str | None = None
    group: str | None = None
    notes: str | None = None
    tags: list[str] | None = None
    config: dict[str, Any] | None = None
    id_suffix: str | None = "train"


@dataclass
class SwanlabConfig:
    """Sets SwanLab; "disabled" writes nothing there."""

    project: str | None = None
    name: str | None = None
    config: dict[str, Any] | None = None
    logdir: str | None = None
    mode: str = "disabled"
    api_key: str | None = None


@dataclass
class TensorBoardConfig:
    """Sets TensorBoard: ``path`` is a folder, "auto" (below the run's log folder) or null (off)."""

    path: str | None = ours("stats_logger.tensorboard.path")


@dataclass
class TrackioConfig:
    """Sets Trackio; "disabled" writes nothing there."""

    mode: str = "disabled"
    project: str | None = None
    name: str | None = None
    space_id: str | None = None


@dataclass
class StatsLoggerConfig:
    """Where the statistics of each step go."""

    experiment_name: str = MISSING
    trial_name: str = MISSING
    fileroot: str = MISSING
    wandb: WandBConfig = field(default_factory=WandBConfig)
    swanlab: SwanlabConfig = field(default_factory=SwanlabConfig)
    tensorboard: TensorBoardConfig = field(default_factory=TensorBoardConfig)
    trackio: TrackioConfig = field(default_factory=TrackioConfig)


@dataclass
class SessionTracerConfig:
    """Whether each episode's phases are recorded, and after how many they are written."""

    enabled: bool = False
    flush_threshold: int = 256

    def __post_init__(self) -> None:
        at_least(self, 1, "flush_threshold")


@dataclass
class MemoryProfilerConfig:
    """At which steps memory allocations are recorded, and how many at most."""

    profile_steps: list[int] = field(default_factory=lambda: [0, 1])
    max_entries: int = 100_000

    def __post_init__(self) -> None:
        above(self, 0, "max_entries")


@dataclass
class PerfTracerConfig:
    """Whether a time-line is recorded, at which steps, and how often it is written."""

    experiment_name: str = MISSING
    trial_name: str = MISSING
    fileroot: str = MISSING
    enabled: bool = False
    save_interval: int = 1
    profile_steps: list[int] | None = None
    session_tracer: SessionTracerConfig | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, "save_interval")
