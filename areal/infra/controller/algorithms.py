"""The controllers of algorithms, under the names that AReaL gives them.

They have the methods of the engines that they control. Rows of an evaluation, which may be fewer
than the processes, are filled up.
"""

from __future__ import annotations

from typing import Any

from areal.infra.controller.train_controller import TrainController


class PPOActorController(TrainController):
    """Controls the processes of a policy."""


class PPOCriticController(TrainController):
    """Controls the processes of a critic."""


class LMController(TrainController):
    """Controls the processes of supervised fine-tuning."""

    def evaluate_lm(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_lm", (self._filled_up(data),), {})


class RWController(TrainController):
    """Controls the processes of a reward model; the two sides of a pair stay together."""

    group_size = 2

    def evaluate_rw(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_rw", (self._filled_up(data),), {})


class DPOController(TrainController):
    """Controls the processes of preference optimisation; pairs stay together."""

    group_size = 2

    def evaluate_dpo(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_dpo", (self._filled_up(data),), {})
