"""Plain guest: a reward for Trinity-RFT 0.6.0 and its development line."""

from __future__ import annotations

from typing import Any

from trinity.common.rewards import RewardFn


def extract_answer(response: str) -> str | None:
    """Finds the answer in a response, or None where it holds none."""
    # YOURS: say how the answer is found in the response (now: it is the last line)
    lines = response.strip().splitlines()
    return " ".join(lines[-1].split()).casefold() if lines else None


class PlainGuestReward(RewardFn):
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
