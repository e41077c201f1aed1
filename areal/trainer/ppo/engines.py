"""Actors and critics that are engines themselves, under the names that AReaL gives them."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from areal.api.cli_args import PPOActorConfig, PPOCriticConfig, TrainEngineConfig
from areal.engine.training.by_config import ArchonEngine, FSDPEngine
from areal.engine.training.engine import PackedTrainEngine
from areal.infra.controller.algorithms import PPOActorController, PPOCriticController
from areal.infra.controller.train_controller import TrainController
from areal.trainer.ppo.actor import PPOActor
from areal.trainer.ppo.critic import PPOCritic
from areal.utils.data import TensorDict


class _ActorMethods(PackedTrainEngine):
    """Adds what ``PPOActor`` does to an engine."""

    config_class: ClassVar[type[TrainEngineConfig]] = PPOActorConfig
    controller_class: ClassVar[type[TrainController]] = PPOActorController

    def __init__(self, config: PPOActorConfig) -> None:
        super().__init__(config)  # type: ignore[call-arg]  # an engine by its configuration
        self.actor = PPOActor(config, self)

    def compute_logp(self, data: list[TensorDict]) -> list[Tensor]:
        return self.actor.compute_logp(data)

    def compute_advantages(self, data: list[TensorDict]) -> list[TensorDict]:
        return self.actor.compute_advantages(data)

    def ppo_update(self, data: list[TensorDict]) -> None:
        self.actor.ppo_update(data)


class _CriticMethods(PackedTrainEngine):
    """Adds what ``PPOCritic`` does to an engine."""

    config_class: ClassVar[type[TrainEngineConfig]] = PPOCriticConfig
    controller_class: ClassVar[type[TrainController]] = PPOCriticController

    def __init__(self, config: PPOCriticConfig) -> None:
        super().__init__(config)  # type: ignore[call-arg]  # an engine by its configuration
        self.critic = PPOCritic(config, self)

    def compute_values(self, data: list[TensorDict]) -> list[Tensor]:
        return self.critic.compute_values(data)

    def ppo_update(self, data: list[TensorDict]) -> None:
        self.critic.ppo_update(data)


class FSDPPPOActor(_ActorMethods, FSDPEngine):
    """Optimises the policy of a Hugging Face model."""


class FSDPPPOCritic(_CriticMethods, FSDPEngine):
    """Optimises the values of a Hugging Face model."""


class ArchonPPOActor(_ActorMethods, ArchonEngine):
    """Optimises the policy of an Archon model."""


class ArchonPPOCritic(_CriticMethods, ArchonEngine):
    """Optimises the values of an Archon model."""
