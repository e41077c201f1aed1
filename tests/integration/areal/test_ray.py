"""Workers on a Ray cluster of two nodes, one of which goes away."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from areal.api.cli_args import SchedulingSpec
from areal.api.scheduler_api import Job
from areal.infra.scheduler import RayScheduler
from areal.infra.scheduler import ray as ray_scheduler
from areal.infra.scheduler.exceptions import WorkerCreationError, WorkerFailedError
from tests.echo_worker import COMMAND, ENGINE
from tests.scheduler_kinds import TIMEOUT_S, is_running, ray_cluster, started_by_hand, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


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


def test_a_node_that_goes_while_its_worker_starts_is_made_up_for(
    cluster: Any, scheduler: RayScheduler
) -> None:
    scheduler._startup_timeout = TIMEOUT_S
    node = add_node(cluster, num_cpus=2)
    # To open it takes until somebody reads it, as on a file system that hangs.
    log = scheduler.log_dir / "goes-0.log"
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    with ThreadPoolExecutor() as threads:
        # Only the second node has room for it.
        made = threads.submit(scheduler.create_workers, job("goes", cpu=2))
        until(lambda: any("_Watcher.start" in " ".join(p.info["cmdline"] or ()) for p in look()))
        cluster.remove_node(node, allow_graceful=False)
        log.unlink()
        add_node(cluster, num_cpus=2)
        made.result(TIMEOUT_S)
    scheduler.get_workers("goes", TIMEOUT_S)
    (process,) = scheduler._processes["goes"]
    assert process.num_starts == 1  # none of the restarts that it is given


def look() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])


def test_the_launchers_variables_win(cluster: Any, tmp_path: Path) -> None:
    # What the node has is what this process had when the cluster was made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "of the launcher")
        scheduler = RayScheduler(
            n_gpus_per_node=1,
            startup_timeout=TIMEOUT_S,
            experiment_name="e",
            trial_name="t",
            fileroot=str(tmp_path),
        )
    scheduler.create_workers(job("a"))
    scheduler.get_workers("a", TIMEOUT_S)
    asyncio.run(scheduler.create_engine("a/0", ENGINE, "e"))
    found = scheduler.call_engine("a/0", "environment", "e", "HF_HUB_OFFLINE")
    assert found == ["of the launcher"]
    scheduler.close()


def test_what_has_no_room_is_refused_with_what_there_is(
    scheduler: RayScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ray_scheduler, "_TELL_AFTER_S", 1.0)
    scheduler._startup_timeout = 4.0
    with pytest.raises(WorkerCreationError, match=r"no room for role 'a'.*'CPU': 64.*'CPU': 1"):
        scheduler.create_workers(job("a", cpu=64))
    assert caplog.text.count("waiting 4 s in all") == 1
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


JOIN = """
from areal.infra.scheduler.ray import connect

connect()
import ray


@ray.remote
class Actor:
    def answer(self):
        return "up"


actor = Actor.remote()
print(ray.get(actor.answer.remote(), timeout=60))
"""


def without_token(home: Path, **variables: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    own = {"HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    return {**kept, **own, **variables}


def run_without_token(
    home: Path, program: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=without_token(home, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def test_a_cluster_that_was_started_by_hand_is_joined(tmp_path: Path) -> None:
    with started_by_hand(tmp_path, HOME=str(tmp_path), PYTHONPATH=str(ROOT)) as (_, scratch):
        done = run_without_token(tmp_path, JOIN, RAY_TMPDIR=scratch)
    assert done.stdout.splitlines()[-1:] == ["up"], done.stderr
    assert not (tmp_path / ".ray").exists()


def test_a_cluster_of_its_own_asks_for_a_token_and_writes_none(tmp_path: Path) -> None:
    asks = "assert os.environ['RAY_AUTH_TOKEN'] and os.environ['RAY_AUTH_MODE'] == 'token'"
    done = run_without_token(tmp_path, f"import os{JOIN}{asks}")
    assert done.stdout.splitlines()[-1:] == ["up"], done.stderr
    assert not (tmp_path / ".ray").exists()
