"""Workers on a Ray cluster of two nodes, one of which goes away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import SchedulingSpec
from areal.api.scheduler_api import Job
from areal.infra.scheduler import RayScheduler
from areal.infra.scheduler.exceptions import WorkerCreationError, WorkerFailedError
from tests.echo_worker import COMMAND, ENGINE
from tests.scheduler_kinds import TIMEOUT_S, is_running, ray_cluster, until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[Any]:
    # A head that holds one worker of one CPU; the second node is added by each test.
    with ray_cluster(num_nodes=1, num_cpus=1) as made:
        yield made


@pytest.fixture
def scheduler(cluster: Any, tmp_path: Path) -> Iterator[RayScheduler]:
    made = RayScheduler(
        n_gpus_per_node=1,
        startup_timeout=20,
        experiment_name="e",
        trial_name="t",
        fileroot=str(tmp_path),
    )
    yield made
    made.close()


def add_node(cluster: Any, num_cpus: int) -> Any:
    return cluster.add_node(
        num_cpus=num_cpus, num_gpus=0, memory=64 << 30, object_store_memory=80 << 20
    )


def job(role: str, replicas: int = 1, **fields: Any) -> Job:
    return Job(role, replicas, [SchedulingSpec(**{"cpu": 1, "mem": 1, "cmd": COMMAND, **fields})])


def pid_of(scheduler: RayScheduler, worker: str) -> int:
    asyncio.run(scheduler.create_engine(worker, ENGINE, "e"))
    pid: int = scheduler.call_engine(worker, "where", "e")[0]
    return pid


def test_a_node_that_goes_takes_its_workers_and_no_other(
    cluster: Any, scheduler: RayScheduler
) -> None:
    scheduler.create_workers(job("stays"))
    node = add_node(cluster, num_cpus=2)
    # Only the second node has room for it.
    scheduler.create_workers(job("goes", cpu=2))
    for role in ("stays", "goes"):
        scheduler.get_workers(role, TIMEOUT_S)
    stays, goes = pid_of(scheduler, "stays/0"), pid_of(scheduler, "goes/0")
    cluster.remove_node(node, allow_graceful=False)
    until(lambda: not is_running(goes))
    (process,) = scheduler._processes["goes"]
    until(lambda: process.exit_code() is not None)  # Ray needs a moment to find out
    with pytest.raises(WorkerFailedError) as raised:
        scheduler.call_engine("goes/0", "echo", "e", 1)
    assert raised.value.exit_code == -9
    assert is_running(stays)
    assert scheduler.call_engine("stays/0", "echo", "e", 1) == [[1], {}]
    # It finds a place again as soon as there is one.
    process.start()
    assert process.exit_code() is None
    add_node(cluster, num_cpus=2)
    until(lambda: "listening" in process.last_words().rpartition("worker goes/0")[2])
    assert process.num_starts == 2
    assert process.exit_code() is None


def test_what_has_no_room_is_refused_with_what_there_is(scheduler: RayScheduler) -> None:
    scheduler._startup_timeout = 1.0
    with pytest.raises(WorkerCreationError, match=r"no room for role 'a'.*'CPU': 64.*'CPU': 1"):
        scheduler.create_workers(job("a", cpu=64))
    with pytest.raises(WorkerCreationError, match="asks for 9 devices and a node has 1"):
        scheduler.create_workers(job("a", gpu=9))
    scheduler._startup_timeout = TIMEOUT_S
    scheduler.create_workers(job("a"))
    scheduler.get_workers("a", TIMEOUT_S)


def test_a_folder_that_a_node_lacks_is_refused(
    scheduler: RayScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/no/such/folder")
    with pytest.raises(WorkerCreationError, match=r"a/0: there is no folder '/no/such/folder'"):
        scheduler.create_workers(job("a"))


def test_the_home_folder_gets_no_token(scheduler: RayScheduler) -> None:
    token = Path.home() / ".ray" / "auth_token"
    assert not token.exists() or token.read_text() != os.environ["RAY_AUTH_TOKEN"]
