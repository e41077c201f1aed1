"""Which requests draw from one random stream, and which from streams of their own."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator

import pytest

from areal.infra import workflow_context
from areal.infra.sampling_seeds import SamplingSeeds


@pytest.fixture(autouse=True)
def own_context() -> Iterator[None]:
    yield
    workflow_context.set(workflow_context.WorkflowContext())


def streams(seeds: SamplingSeeds, task: int | None, sample: int | None, *asked: int | None):
    def inside() -> list[int | None]:
        workflow_context.set(workflow_context.WorkflowContext(task_id=task, sample_idx=sample))
        return [seeds.of(each) for each in asked]

    return contextvars.copy_context().run(inside)


@pytest.mark.parametrize("is_deterministic", [True, False])
def test_requests_of_one_episode_differ_although_they_share_a_seed(is_deterministic: bool) -> None:
    seeds = SamplingSeeds(1, is_deterministic)
    found = [*streams(seeds, 7, 0, 5, 5, 5), *streams(seeds, 7, 1, 5, 5), *streams(seeds, 8, 2, 5)]
    assert len(set(found)) == len(found)
    again = SamplingSeeds(1, is_deterministic)
    assert streams(again, 7, 0, 5, 5, 5) == found[:3], "a run repeats itself"


def test_a_seed_outside_of_an_episode_is_the_stream() -> None:
    seeds = SamplingSeeds(1, is_deterministic=False)
    assert streams(seeds, None, None, 5, 5, None) == [5, 5, None]
    assert streams(seeds, 7, None, None, None) == [None, None]
    assert streams(seeds, 9, None, 5)[0] == 5
