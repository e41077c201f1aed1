from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from areal.trainer.filters import has_reward_variance


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [([1.0, 0.0], True), ([1.0, 1.0], False), ([0.0, 0.0, 1e-3], True), ([1.0], True)],
)
def test_a_group_must_differ_in_reward(rewards: list[float], expected: bool) -> None:
    assert has_reward_variance({"rewards": torch.tensor(rewards)}) is expected
    interactions = {str(i): SimpleNamespace(reward=r) for i, r in enumerate(rewards)}
    interactions["unrated"] = SimpleNamespace(reward=None)
    assert has_reward_variance(interactions) is expected
