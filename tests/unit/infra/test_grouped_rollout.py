from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from areal.api.workflow_api import RolloutWorkflow
from areal.infra import GroupedRolloutWorkflow, grouped_rollout, workflow_context
from tests.fakes import FakeInteraction, trajectory


class PerSample(RolloutWorkflow):
    """Does what a function of the sample's place in the group says."""

    def __init__(self, behave: Callable[[int], Any]) -> None:
        self.behave = behave
        self.log: list[str] = []

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        sample_idx = workflow_context.get().sample_idx
        assert sample_idx is not None
        self.log.append(f"start{sample_idx}")
        await asyncio.sleep(0)
        self.log.append(f"end{sample_idx}")
        return self.behave(sample_idx)


def _run(workflow: PerSample, size: int, **options: Any) -> Any:
    return asyncio.run(GroupedRolloutWorkflow(workflow, size, **options).arun_episode(None, {}))


def _raise(sample_idx: int) -> Any:
    raise ValueError(f"sample {sample_idx}")


def test_members_run_together_and_are_padded_into_one() -> None:
    workflow = PerSample(lambda i: trajectory(length=3 + i, reward=float(i)))
    group = _run(workflow, 3)
    assert workflow.log == ["start0", "start1", "start2", "end0", "end1", "end2"]
    assert group["input_ids"].shape == (3, 5)
    assert group["attention_mask"].sum(1).tolist() == [3, 4, 5]
    assert group["rewards"].tolist() == [0.0, 1.0, 2.0]


def test_members_run_one_after_the_other_if_asked() -> None:
    workflow = PerSample(lambda i: trajectory())
    _run(workflow, 2, serialize=True)
    assert workflow.log == ["start0", "end0", "start1", "end1"]


@pytest.mark.parametrize(
    "behave",
    [
        lambda i: None if i == 1 else trajectory(reward=float(i)),
        lambda i: _raise(i) if i == 1 else trajectory(reward=float(i)),
        lambda i: {"input_ids": None} if i == 1 else trajectory(reward=float(i)),
    ],
)
def test_a_member_without_result_costs_itself(behave: Callable[[int], Any]) -> None:
    assert _run(PerSample(behave), 3)["rewards"].tolist() == [0.0, 2.0]
    assert _run(PerSample(behave), 3, drop_incomplete_group=True) is None


def test_nothing_left_is_a_rejection() -> None:
    assert _run(PerSample(lambda i: None), 2) is None
    assert _run(PerSample(_raise), 2) is None


def _interactions(rewards: list[list[float | None]]) -> PerSample:
    def behave(i: int) -> dict[str, FakeInteraction]:
        names = [f"{i}.{turn}" for turn in range(len(rewards[i]))]
        pairs = zip(names, rewards[i], strict=True)
        return {name: FakeInteraction(name, 3, reward) for name, reward in pairs}

    return PerSample(behave)


def test_interactions_are_merged() -> None:
    merged = _run(_interactions([[1.0], [0.0, 3.0]]), 2)
    rewards = {key: value.reward for key, value in merged.items()}
    assert rewards == {"0.0": 1.0, "1.0": 0.0, "1.1": 3.0}


def test_rewards_of_interactions_are_standardised_by_the_last_of_each_rollout() -> None:
    # Last rewards 1 and 3: mean 2, population standard deviation 1.
    merged = _run(_interactions([[1.0], [0.5, 3.0]]), 2, reward_normalization=True)
    rewards = {key: value.reward for key, value in merged.items()}
    assert rewards == pytest.approx({"0.0": -1.0, "1.0": 1.0, "1.1": 1.0})
    originals = {key: value.original_reward for key, value in merged.items()}
    assert originals == {"0.0": 1.0, "1.0": 0.5, "1.1": 3.0}


def test_equal_rewards_become_zero() -> None:
    merged = _run(_interactions([[2.0], [2.0]]), 2, reward_normalization=True)
    assert all(math.isclose(value.reward, 0.0) for value in merged.values())


def test_a_group_with_a_missing_reward_is_dropped_when_normalising() -> None:
    assert _run(_interactions([[1.0], [1.0, None]]), 2, reward_normalization=True) is None
    assert len(_run(_interactions([[1.0], [1.0, None]]), 2)) == 3


def test_tensors_are_not_normalised_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    grouped_rollout.say_that_tensors_stay.cache_clear()
    workflow = PerSample(lambda i: trajectory(reward=float(i)))
    for _ in range(2):
        merged = _run(workflow, 2, reward_normalization=True)
        assert merged["rewards"].tolist() == [0.0, 1.0]
    (said,) = [text for text in caplog.messages if "reward_normalization" in text]
    assert "actor.reward_norm" in said
