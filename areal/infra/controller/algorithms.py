"""The controllers of algorithms, under the names that AReaL gives them.

They have the methods of the engines that they control; what is named here is what those share out.
"""

from __future__ import annotations

from typing import Any

from areal.infra.controller.train_controller import TrainController


class PPOActorController(TrainController):
    """Controls the processes of a policy."""

    def compute_logp(self, *args: Any, **kwargs: Any) -> Any:
        return self._shared_call("compute_logp", args, kwargs)

    def compute_advantages(self, *args: Any, **kwargs: Any) -> Any:
        return self._shared_call("compute_advantages", args, kwargs)

    def ppo_update(self, *args: Any, **kwargs: Any) -> None:
        self._shared_call("ppo_update", args, kwargs)


class PPOCriticController(TrainController):
    """Controls the processes of a critic."""

    def compute_values(self, *args: Any, **kwargs: Any) -> Any:
        return self._shared_call("compute_values", args, kwargs)

    def ppo_update(self, *args: Any, **kwargs: Any) -> None:
        self._shared_call("ppo_update", args, kwargs)


class LMController(TrainController):
    """Controls the processes of supervised fine-tuning."""

    def train_lm(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("train_lm", (data,), {})

    def evaluate_lm(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_lm", (self._filled_up(data),), {})


class RWController(TrainController):
    """Controls the processes of a reward model; the two sides of a pair stay together."""

    group_size = 2

    def train_rw(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("train_rw", (data,), {})

    def evaluate_rw(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_rw", (self._filled_up(data),), {})


class DPOController(TrainController):
    """Controls the processes of preference optimisation; pairs stay together."""

    group_size = 2

    def compute_logp(self, *args: Any, **kwargs: Any) -> Any:
        return self._shared_call("compute_logp", args, kwargs)

    def train_dpo(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("train_dpo", (data,), {})

    def evaluate_dpo(self, data: list[dict[str, Any]]) -> Any:
        return self._shared_call("evaluate_dpo", (self._filled_up(data),), {})
