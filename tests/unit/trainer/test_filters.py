from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from areal.trainer.filters import has_reward_variance


@pytest.mark.parametrize(
    ("rewards", "kept"),
    [([0.0, 1.0], True), ([1.0, 1.0, 1.0], False), ([0.0, 0.0], False), ([0.5], True)],
)
def test_groups(rewards: list[float], kept: bool) -> None:
    assert has_reward_variance({"rewards": torch.tensor(rewards)}) is kept
    interactions = {str(i): SimpleNamespace(reward=reward) for i, reward in enumerate(rewards)}
    assert has_reward_variance(interactions) is kept
