from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from areal.utils import stats_tracker
from areal.utils.stats_tracker import DistributedStatsTracker, ReduceType


@pytest.fixture
def tracker() -> DistributedStatsTracker:
    return DistributedStatsTracker()


_MASK = torch.tensor([[True, True, False], [True, False, False]])
_VALUES = torch.tensor([[1.0, 2.0, float("nan")], [6.0, -50.0, 50.0]])


@pytest.mark.parametrize(
    ("reduce_type", "expected"),
    [
        (None, {"x/avg": 3.0, "x/min": 1.0, "x/max": 6.0}),
        (ReduceType.AVG_MIN_MAX, {"x/avg": 3.0, "x/min": 1.0, "x/max": 6.0}),
        (ReduceType.AVG, {"x": 3.0}),
        (ReduceType.SUM, {"x": 9.0}),
        (ReduceType.MIN, {"x": 1.0}),
        (ReduceType.MAX, {"x": 6.0}),
    ],
)
def test_only_what_the_denominator_selects_counts(
    tracker: DistributedStatsTracker, reduce_type: ReduceType | None, expected: dict[str, float]
) -> None:
    tracker.denominator(n=_MASK)
    tracker.stat("n", reduce_type, x=_VALUES)
    assert tracker.export() == {"n": 3.0, **expected}


def test_micro_batches_weigh_by_their_elements(tracker: DistributedStatsTracker) -> None:
    for size, value in ((1, 10.0), (3, 2.0)):
        tracker.denominator(n=torch.ones(size, dtype=torch.bool))
        tracker.stat("n", x=torch.full((size,), value))
    assert tracker.export() == {"n": 4.0, "x/avg": 4.0, "x/min": 2.0, "x/max": 10.0}


def test_scalars_are_averaged_and_forgotten(tracker: DistributedStatsTracker) -> None:
    tracker.scalar(reward=1.0, length=7)
    tracker.scalar(reward=0.0)
    assert tracker.export(reset=False) == {"length": 7.0, "reward": 0.5}
    assert tracker.export() == {"length": 7.0, "reward": 0.5}
    assert tracker.export() == {}


def test_scopes_nest_and_the_name_stands_first() -> None:
    tracker = DistributedStatsTracker("rollout")
    with tracker.scope("a"):
        with tracker.scope("b"):
            tracker.scalar(x=1)
        tracker.scalar(x=2)
    tracker.scalar(x=3)
    assert tracker.export() == {"rollout/a/b/x": 1.0, "rollout/a/x": 2.0, "rollout/x": 3.0}


def test_a_denominator_of_an_outer_scope_is_found(tracker: DistributedStatsTracker) -> None:
    tracker.denominator(n=_MASK)
    with tracker.scope("loss"), tracker.scope("clip"):
        tracker.stat("n", ReduceType.AVG, x=_VALUES)
    assert tracker.export()["loss/clip/x"] == 3.0


def test_a_mask_that_selects_nothing_leaves_the_key_out(tracker: DistributedStatsTracker) -> None:
    tracker.denominator(n=torch.zeros(3, dtype=torch.bool))
    tracker.stat("n", x=torch.ones(3))
    assert tracker.export() == {"n": 0.0}


def test_a_gradient_is_not_held(tracker: DistributedStatsTracker) -> None:
    value = torch.ones(2, requires_grad=True)
    tracker.denominator(n=torch.ones(2, dtype=torch.bool))
    tracker.stat("n", x=value * 2)
    assert not tracker._metrics["x"].total.requires_grad


def test_export_of_one_key_or_scope(tracker: DistributedStatsTracker) -> None:
    with tracker.scope("a"):
        tracker.scalar(x=1, y=2)
    tracker.scalar(ab=3)
    assert tracker.export(key="a/x") == {"a/x": 1.0}
    assert tracker.export(key="a") == {"a/y": 2.0}
    assert tracker.export() == {"ab": 3.0}


def test_timings_ignore_the_scope(tracker: DistributedStatsTracker) -> None:
    with tracker.scope("deep"), tracker.record_timing("rollout"):
        pass
    exported = tracker.export()
    assert list(exported) == ["timeperf/rollout"]
    assert exported["timeperf/rollout"] >= 0


def test_the_decorator_opens_a_scope(tracker: DistributedStatsTracker) -> None:
    @tracker.scope_func_wrapper("update")
    def update() -> None:
        tracker.scalar(x=1)

    update()
    assert tracker.export() == {"update/x": 1.0}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            lambda t: t.denominator(n=torch.ones(2)),
            r"bool tensor, not torch\.float32",
        ),
        (lambda t: t.denominator(n=torch.ones(0, dtype=torch.bool)), "non-empty"),
        (lambda t: t.denominator(n=[True]), "'n' must be a non-empty bool tensor, not list"),
        (lambda t: t.stat("m", x=_VALUES), "unknown denominator 'm'; recorded so far: n"),
        (lambda t: t.stat("n", x=torch.ones(3)), r"'x' has shape \[3\], but .* \[2, 3\]"),
        (lambda t: t.stat("n", ReduceType.SCALAR, x=_VALUES), "use scalar"),
        (lambda t: t.scalar(n=1), "'n' was recorded as denominator before, now as SCALAR"),
    ],
)
def test_misuse_is_explained(
    tracker: DistributedStatsTracker, record: object, message: str
) -> None:
    tracker.denominator(n=_MASK)
    with pytest.raises(ValueError, match=message):
        record(tracker)  # type: ignore[operator]


def test_threads_and_tasks_have_scopes_of_their_own(tracker: DistributedStatsTracker) -> None:
    async def record(name: str) -> None:
        with tracker.scope(name):
            await asyncio.sleep(0)
            tracker.scalar(x=1)

    async def main() -> None:
        await asyncio.gather(*(record(f"task{i}") for i in range(3)))

    def work() -> None:
        for _ in range(2000):
            tracker.scalar(y=1)

    with tracker.scope("outer"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    asyncio.run(main())
    assert tracker._metrics["y"].count == 8000
    assert tracker.export() == {"task0/x": 1.0, "task1/x": 1.0, "task2/x": 1.0, "y": 1.0}


@pytest.fixture
def _clean_trackers() -> Iterator[None]:
    stats_tracker.export_all()
    yield
    stats_tracker.export_all()


@pytest.mark.usefixtures("_clean_trackers")
def test_trackers_by_name_are_process_wide() -> None:
    stats_tracker.scalar(loss=1)
    stats_tracker.get("rollout").scalar(reward=2)
    assert stats_tracker.get("rollout") is stats_tracker.get("rollout")
    assert stats_tracker.get() is stats_tracker.DEFAULT_TRACKER
    assert stats_tracker.get("rollout").export(reset=False) == {"rollout/reward": 2.0}
    assert stats_tracker.export_all() == {"loss": 1.0, "rollout/reward": 2.0}


def _reduce_on(rank: int, world_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size
    )
    tracker = DistributedStatsTracker()
    tracker.denominator(n=torch.ones(rank + 1, dtype=torch.bool))
    tracker.stat("n", x=torch.full((rank + 1,), float(rank)))
    tracker.scalar(**{f"only{rank}": 5.0, "both": float(rank)})
    torch.save(tracker.export(reduce_group=dist.group.WORLD), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("world_size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_processes_reduce_although_their_keys_differ(tmp_path: Path, world_size: int) -> None:
    folder = str(tmp_path)
    if world_size == 1:
        _reduce_on(0, 1, folder)
        expected = {"both": 0.0, "n": 1.0, "only0": 5.0, "x/avg": 0.0, "x/min": 0.0, "x/max": 0.0}
    else:
        mp.spawn(_reduce_on, args=(world_size, folder), nprocs=world_size)
        expected = {"both": 0.5, "n": 3.0, "only0": 5.0, "only1": 5.0}
        expected |= {"x/avg": 2 / 3, "x/min": 0.0, "x/max": 1.0}
    for rank in range(world_size):
        path = os.path.join(folder, f"{rank}.pt")
        assert torch.load(path, weights_only=True) == pytest.approx(expected)
