"""Engines that learn from given rows, under the names that AReaL gives them.

Data are lists of trajectories as the collate functions of ``areal.trainer`` make them; loss masks
are at the tokens themselves.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from areal.api.cli_args import DPOEngineConfig, TrainEngineConfig
from areal.engine.training.by_config import ArchonEngine, FSDPEngine
from areal.engine.training.engine import PackedTrainEngine
from areal.infra.controller.algorithms import DPOController, LMController, RWController
from areal.infra.controller.train_controller import TrainController
from areal.trainer.dpo import DPOEngine
from areal.trainer.rw import RWEngine
from areal.trainer.sft import LMEngine
from areal.utils.data import TensorDict


class _LMMethods(PackedTrainEngine):
    """Adds what ``LMEngine`` does to an engine."""

    controller_class: ClassVar[type[TrainController]] = LMController

    def train_lm(self, data: list[TensorDict]) -> dict[str, float]:
        return LMEngine(self).train_lm(data)

    def evaluate_lm(self, data: list[TensorDict]) -> dict[str, float]:
        return LMEngine(self).evaluate_lm(data)


class _RWMethods(PackedTrainEngine):
    """Adds what ``RWEngine`` does to an engine with ``is_critic``."""

    controller_class: ClassVar[type[TrainController]] = RWController

    def train_rw(self, data: list[TensorDict]) -> dict[str, float]:
        return RWEngine(self).train_rw(data)

    def evaluate_rw(self, data: list[TensorDict]) -> dict[str, float]:
        return RWEngine(self).evaluate_rw([data])


class _DPOMethods(PackedTrainEngine):
    """Adds what ``DPOEngine`` does to an engine."""

    config_class: ClassVar[type[TrainEngineConfig]] = DPOEngineConfig
    controller_class: ClassVar[type[TrainController]] = DPOController

    def compute_logp(self, data: list[TensorDict]) -> list[Tensor]:
        """Return ``ref_logprobs`` of each trajectory [1, L]."""
        found = DPOEngine(self).compute_logp(data)
        return [
            row[None, : item["input_ids"].shape[1]] for row, item in zip(found, data, strict=True)
        ]

    def train_dpo(self, data: list[TensorDict]) -> dict[str, float]:
        return DPOEngine(self).train_dpo(data)

    def evaluate_dpo(self, data: list[TensorDict]) -> dict[str, float]:
        return DPOEngine(self).evaluate_dpo([data])


class FSDPLMEngine(_LMMethods, FSDPEngine):
    """Fine-tunes a Hugging Face model."""


class FSDPRWEngine(_RWMethods, FSDPEngine):
    """Trains a Hugging Face model to score answers."""


class FSDPDPOEngine(_DPOMethods, FSDPEngine):
    """Optimises a Hugging Face model towards preferred answers."""


class ArchonLMEngine(_LMMethods, ArchonEngine):
    """Fine-tunes an Archon model."""


class ArchonRWEngine(_RWMethods, ArchonEngine):
    """Trains an Archon model to score answers."""


class ArchonDPOEngine(_DPOMethods, ArchonEngine):
    """Optimises an Archon model towards preferred answers."""
