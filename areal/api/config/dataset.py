"""What a run reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from areal.api.config.check import above, at_least
from areal.api.config.cluster import SchedulingSpec
from areal.api.constants import MISSING


def _data_worker() -> SchedulingSpec:
    return SchedulingSpec(cpu=1, gpu=0, mem=10, cmd="python3 -m areal.infra.rpc.guard")


@dataclass
class _DatasetConfig:
    """A dataset and how it is batched.

    ``path`` is a registered name, a folder, a hub id or the import path of a loader; ``type`` is
    "rl", "sft", "rw" or "dpo". ``batch_size`` counts rows; in RL each becomes ``gconfig.n_samples``
    sequences. ``max_length`` counts tokens, and longer rows are left out. ``dataset_kwargs`` go to
    the loader.
    """

    split: str = "train"
    path: str = MISSING
    type: str = MISSING
    batch_size: int = 1
    shuffle: bool = True
    pin_memory: bool = False
    num_workers: int = 0
    num_dataset_workers: int = 1
    drop_last: bool = True
    max_length: int | None = None
    dataset_kwargs: dict[str, Any] = field(default_factory=dict)
    scheduling_spec: SchedulingSpec | None = field(default_factory=_data_worker)
    setup_timeout: float = 120.0

    def __post_init__(self) -> None:
        at_least(self, 1, "batch_size")
        at_least(self, 0, "num_workers", "num_dataset_workers")
        above(self, 0, "max_length", "setup_timeout")


@dataclass
class TrainDatasetConfig(_DatasetConfig):
    """The dataset that is trained on."""


@dataclass
class ValidDatasetConfig(_DatasetConfig):
    """The dataset that is evaluated on."""

    split: str = "test"
    shuffle: bool = False
    drop_last: bool = False
