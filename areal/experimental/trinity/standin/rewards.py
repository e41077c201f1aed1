"""Scores of answers: ``trinity.common.rewards``."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from typing import Any

from areal.api.registry import import_from_string
from areal.experimental.trinity.standin.registry import Registry

_WELL_FORMED = re.compile(r"<think>.*?</think>\s*<answer>.*?</answer>", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{")
# By name, because experiments lie below the rewards.
_GRADER = "areal.reward.math_verify:MathVerifyWorker"


class RewardFn(ABC):
    """Scores an answer; a subclass is made with keyword arguments and called with some."""

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs

    @abstractmethod
    def __call__(self, **kwargs: Any) -> dict[str, float]:
        """Return named scores, whose sum is the reward."""


class AccuracyReward(RewardFn):
    r"""1 where the boxed answer equals the truth."""

    def __call__(self, response: str = "", truth: str = "", **_: Any) -> dict[str, float]:
        """Return ``accuracy``."""
        return {"accuracy": _boxed_accuracy(response, truth)}


class MathRewardFn(RewardFn):
    """Accuracy, and a tenth for or against the form of thinking and answer."""

    def __call__(self, response: str = "", truth: str = "", **_: Any) -> dict[str, float]:
        """Return ``accuracy`` and ``format_score``."""
        is_formed = _WELL_FORMED.fullmatch(response.strip()) is not None
        score = _equals(response, truth)
        return {"accuracy": score, "format_score": 0.1 if is_formed else -0.1}


class MathBoxedRewardFn(RewardFn):
    """Accuracy of the boxed answer, with a form that is asked for by ``with_think``."""

    def __call__(
        self, response: str = "", truth: str = "", with_think: bool = False, **_: Any
    ) -> dict[str, float]:
        """Return ``accuracy`` and ``format_score``."""
        accuracy = _boxed_accuracy(response, truth)
        is_formed = not with_think or ("<think>" in response and "</think>" in response)
        return {"accuracy": accuracy, "format_score": 0.0 if is_formed else -0.1}


class FormatReward(RewardFn):
    """1 where the answer has the form of thinking and answer."""

    def __call__(self, response: str = "", **_: Any) -> dict[str, float]:
        """Return ``format_score``."""
        return {"format_score": float(_WELL_FORMED.fullmatch(response.strip()) is not None)}


def _boxed_accuracy(response: str, truth: Any) -> float:
    return _equals(response, truth) if _BOXED.search(response) else 0.0


def _equals(response: str, truth: Any) -> float:
    return _grader().verify(response, str(truth))


@functools.cache
def _grader() -> Any:
    return import_from_string(_GRADER)(raise_on_error=True)


_HERE = "areal.experimental.trinity.standin.rewards"
REWARD_FUNCTIONS = Registry(
    "reward_functions",
    default_mapping={
        "accuracy_reward": f"{_HERE}.AccuracyReward",
        "format_reward": f"{_HERE}.FormatReward",
        "math_boxed_reward": f"{_HERE}.MathBoxedRewardFn",
        "math_reward": f"{_HERE}.MathRewardFn",
    },
)
