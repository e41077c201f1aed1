from __future__ import annotations

import threading

import pytest

from areal.api.io_struct import RolloutStat
from areal.infra import StalenessManager
from tests.fakes import VersionedEngine


def _manager(
    engine: VersionedEngine, concurrent: int = 100, batch: int = 4, staleness: int = 0
) -> StalenessManager:
    return StalenessManager(engine, concurrent, batch, staleness)


@pytest.mark.parametrize(
    ("concurrent", "batch", "staleness", "version", "accepted", "running", "expected"),
    [
        (100, 4, 0, 0, 0, 0, 4),
        (100, 4, 0, 0, 1, 2, 1),
        (100, 4, 0, 0, 4, 0, 0),
        (100, 4, 0, 1, 4, 0, 4),
        (100, 4, 2, 0, 0, 0, 12),
        (100, 4, 2, 5, 20, 6, 6),
        (3, 4, 2, 0, 0, 0, 3),
        (3, 4, 2, 0, 0, 3, 0),
        (100, 4, 0, 0, 9, 0, -5),
    ],
)
def test_capacity_follows_the_formula(
    concurrent: int,
    batch: int,
    staleness: int,
    version: int,
    accepted: int,
    running: int,
    expected: int,
) -> None:
    manager = _manager(VersionedEngine(version), concurrent, batch, staleness)
    for _ in range(accepted + running):
        manager.on_rollout_enqueued()
        manager.on_rollout_submitted()
    for _ in range(accepted):
        manager.on_rollout_accepted()
    assert manager.get_capacity() == expected


def test_a_rejection_makes_room() -> None:
    manager = _manager(VersionedEngine())
    for _ in range(4):
        manager.on_rollout_enqueued()
        manager.on_rollout_submitted()
    assert manager.get_capacity() == 0
    manager.on_rollout_rejected()
    assert manager.get_capacity() == 1
    assert manager.get_stats() == RolloutStat(accepted=0, enqueued=0, rejected=1, running=3)


def test_a_new_version_wakes_who_waits() -> None:
    engine = VersionedEngine()
    manager = _manager(engine)
    manager.restore(num_accepted=4)
    assert manager.wait_for_capacity(timeout=0.01) == 0
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(manager.wait_for_capacity()))
    heard = threading.Event()
    manager.add_listener(heard.set)
    waiter.start()
    engine.version = 1
    manager.notify_version_changed()
    waiter.join()
    assert found == [4]
    assert heard.is_set()


def test_a_recovered_version_has_consumed_a_batch_for_each_before() -> None:
    engine = VersionedEngine(3)
    manager = _manager(engine, 100, 4, 1)
    manager.on_version_recovered(3)
    assert manager.get_stats() == RolloutStat(accepted=12)
    assert manager.get_capacity() == (1 + 3 + 1) * 4 - 12
