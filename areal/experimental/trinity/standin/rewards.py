"""Scores of answers: ``trinity.common.rewards``."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from areal.api.registry import import_from_string
from areal.experimental.trinity.standin.registry import Registry

_THOUGHT_AND_ANSWER = r".*?<think>.*?</think>\s*<answer>.*?</answer>\s*$"
_ON_LINES_OF_THEIR_OWN = r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$"
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{")
# By name, because experiments lie below the rewards.
_GRADER = "areal.reward.math_verify:MathVerifyWorker"
_COMPARISON = "areal.reward.math_verify:reads_equal"
_FORMAT_SCORE = 0.1

Parser = Callable[[str], Any]


class RewardFn(ABC):
    """Scores an answer; a subclass is made with keyword arguments and called with some."""

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs

    @abstractmethod
    def __call__(self, **kwargs: Any) -> dict[str, float]:
        """Return named scores, whose sum is the reward."""


class AccuracyReward(RewardFn):
    """1 where the answer equals the truth.

    Args:
        answer_parser: Reads both; without it the answer has to be boxed.
    """

    def __init__(self, answer_parser: Parser | None = None) -> None:
        self.answer_parser = answer_parser

    def __call__(
        self, response: str, prompt: str | None = None, truth: str | None = None
    ) -> dict[str, float]:
        """Return ``accuracy``.

        Raises:
            ValueError: There is no truth.
        """
        truth = _checked(truth)
        if self.answer_parser is None:
            return {"accuracy": _boxed_accuracy(response, truth)}
        is_equal = import_from_string(_COMPARISON)(response, truth, self.answer_parser)
        return {"accuracy": float(is_equal)}


class FormatReward(RewardFn):
    """A tenth for or against the form of the response.

    Args:
        pattern: What a response has to begin with; by default thoughts and answer, whose tags have
            lines of their own.
    """

    def __init__(self, pattern: str | None = None) -> None:
        self.pattern = re.compile(pattern or _ON_LINES_OF_THEIR_OWN, re.DOTALL)

    def __call__(self, response: str, **_: Any) -> dict[str, float]:
        """Return ``format_score``."""
        is_formed = self.pattern.match(response) is not None
        return {"format_score": _FORMAT_SCORE if is_formed else -_FORMAT_SCORE}


class MathRewardFn(RewardFn):
    """Accuracy of what the tags of the answer enclose, and a tenth for or against the form.

    Args:
        answer_parser: Reads response and truth; by default ``math-verify`` does.
        pattern: What a response has to begin with.
    """

    def __init__(
        self, answer_parser: Parser | None = None, pattern: str = _THOUGHT_AND_ANSWER
    ) -> None:
        self.accuracy = AccuracyReward(answer_parser or _parse_answer)
        self.form = FormatReward(pattern)

    def __call__(
        self, response: str, prompt: str | None = None, truth: str | None = None
    ) -> dict[str, float]:
        """Return ``accuracy`` and ``format_score``.

        Raises:
            ValueError: There is no truth.
        """
        return {**self.accuracy(response, prompt, truth), **self.form(response)}


class MathBoxedRewardFn(RewardFn):
    """Accuracy of the boxed answer, with a form that is asked for by ``with_think``."""

    def __call__(
        self,
        response: str,
        truth: str | None = None,
        with_think: bool = False,
        format_score_coef: float = _FORMAT_SCORE,
        **_: Any,
    ) -> dict[str, float]:
        """Return ``accuracy`` and ``format_score``.

        Raises:
            ValueError: There is no truth.
        """
        accuracy = _boxed_accuracy(response, _checked(truth))
        is_formed = not with_think or ("<think>" in response and "</think>" in response)
        return {"accuracy": accuracy, "format_score": 0.0 if is_formed else -format_score_coef}


def _checked(truth: Any) -> str:
    if truth is None:
        raise ValueError("the task has no truth to compare with; set format.response_key")
    return str(truth)


def _parse_answer(text: str) -> Any:
    # Costs 0.3 s and is optional: only rewards that grade need it.
    from math_verify import parse

    found = _ANSWER.search(text)
    return parse(found[1] if found else text, parsing_timeout=None)


def _boxed_accuracy(response: str, truth: str) -> float:
    return _grader().verify(response, truth) if _BOXED.search(response) else 0.0


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
