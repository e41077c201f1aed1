"""Tests of ``PlainGuestReward``, with Trinity-RFT or with areal's stand-ins for it."""

from __future__ import annotations

import importlib
import unittest
from typing import Any

import pytest

try:
    # Where the package or its vllm is not installed, areal has what a reward needs of it.
    importlib.import_module("areal.experimental.trinity.package").load_package()
except ImportError:
    importlib.import_module("trinity.common.rewards")

REWARDS = importlib.import_module("trinity.common.rewards")

# YOURS: add a response of your own model, its truth and the score it deserves
CASES = [
    ("5 times 4 is\ntwenty", "twenty", 1.0),
    ("twenty\nno, a score", "twenty", 0.0),
    ("  twenty  one \n\n", "twenty one", 1.0),
    ("TWENTY", "twenty", 1.0),
    ("", "20", 0.0),
]


def load() -> Any:
    return importlib.import_module("my_rl.reward.plain_guest")


class PlainGuestRewardTest(unittest.TestCase):
    def setUp(self) -> None:
        self.reward = load().PlainGuestReward()

    def test_scores_the_cases(self) -> None:
        for response, truth, expected in CASES:
            with self.subTest(response=response):
                scores = self.reward(response=response, truth=truth)
                assert scores == {"accuracy": expected}
                assert type(scores["accuracy"]) is float

    def test_scores_any_text(self) -> None:
        for response in (" \n\t", "\x00", "\\", "'\"", "9" * 9_999):
            assert self.reward(response=response, truth="20") == {"accuracy": 0.0}

    def test_an_unusable_truth_is_an_error_and_no_zero(self) -> None:
        for truth in (None, ""):
            with pytest.raises(ValueError, match="expected answer"):
                self.reward(response="20", truth=truth)


if __name__ == "__main__":
    unittest.main()
