"""An evaluation, when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from areal.api.cli_args import EvaluatorConfig
from areal.api.io_struct import FinetuneSpec
from areal.utils.timeutil import PeriodicTimer


class Evaluator:
    """Calls a function when an evaluation is due.

    Args:
        config: When.
        ft_spec: The length of the run.
    """

    def __init__(self, config: EvaluatorConfig, ft_spec: FinetuneSpec) -> None:
        self.config = config
        self._timer = PeriodicTimer(config, ft_spec.steps_per_epoch)
        self._is_first_due = config.eval_before_train

    def evaluate(
        self, evaluate_fn: Callable[[], Any], epoch: int, step: int, global_step: int
    ) -> Any:
        """Call a function if that is due after this step, and return what it does.

        Args:
            evaluate_fn: Takes nothing.
            epoch: The place in the run, as are ``step`` and ``global_step``, counted from 0.
            step: In the epoch.
            global_step: In the run.
        """
        is_due = self._timer.is_due(global_step + 1) or self._is_first_due
        self._is_first_due = False
        return evaluate_fn() if is_due else None

    def state_dict(self) -> dict[str, Any]:
        """Return when something was due last."""
        return {**self._timer.state_dict(), "is_first_due": self._is_first_due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what ``state_dict`` returned."""
        self._timer.load_state_dict(state)
        self._is_first_due = bool(state["is_first_due"])
