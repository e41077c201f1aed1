"""Last guest: a reward for Trinity-RFT 0.6.0 and its development line."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from trinity.common.rewards import RewardFn

# A sign counts only where no digit comes before it: the last number of "5-3" is 3.
NUMBER = re.compile(r"(?:(?<!\d)-)?\d[\d,]*(?:\.\d+)?")


def extract_answer(response: str) -> Decimal | None:
    """Finds the last number of a text, or None where it holds none."""
    numbers = NUMBER.findall(response)
    return Decimal(numbers[-1].replace(",", "")) if numbers else None


class LastGuestReward(RewardFn):
    """Scores 1 where the answer found in a response equals the expected one.

    Args:
        **kwargs: The reward_fn_args of the taskset.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs

    def __call__(self, response: str = "", truth: Any = None, **kwargs: Any) -> dict[str, float]:
        """Returns named scores, whose sum is the reward.

        Args:
            response: The text that the model answered.
            truth: The expected answer, of the column response_key.
            **kwargs: Nothing in release 0.6.0.

        Raises:
            ValueError: There is no usable truth: a fault of the data, which a 0.0 would hide.
        """
        expected = extract_answer(str(truth)) if truth is not None else None
        if expected is None:
            raise ValueError(f"the task's expected answer {truth!r} cannot be compared")
        return {"accuracy": float(extract_answer(response) == expected)}
