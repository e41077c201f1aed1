"""What every scheduler must do, on this machine, on Ray and under Slurm alike."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import SchedulingSpec, SchedulingStrategy
from areal.api.io_struct import StepInfo
from areal.api.scheduler_api import Job
from areal.infra.scheduler.base import CommandScheduler
from areal.infra.scheduler.exceptions import (
    EngineCallError,
    EngineCreationError,
    EngineImportError,
    WorkerCreationError,
    WorkerFailedError,
    WorkerNotFoundError,
    WorkerTimeoutError,
)
from tests.echo_worker import COMMAND, ENGINE
from tests.scheduler_kinds import KINDS, TIMEOUT_S, is_running, until

# Ray takes a minute or so to start again and again.
MARKS = {"ray": [pytest.mark.slow]}


@pytest.fixture(params=[pytest.param(k, marks=MARKS.get(k, [pytest.mark.heavy])) for k in KINDS])
def scheduler(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandScheduler]:
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as made:
        yield made
        made.close()


def spec(**fields: Any) -> SchedulingSpec:
    # Without -K, by which one worker that fails ends all of its role under Slurm.
    options = {"cpu": 1, "mem": 1, "cmd": COMMAND, "srun_additional_args": "--unbuffered"}
    return SchedulingSpec(**{**options, **fields})


def job(role: str, replicas: int = 1, **fields: Any) -> Job:
    return Job(role, replicas, [spec(**fields)])


def made(scheduler: CommandScheduler, role: str, replicas: int = 1, **fields: Any) -> list[str]:
    """Starts workers with an engine in each and returns their ids."""
    ids = scheduler.create_workers(job(role, replicas, **fields))
    scheduler.get_workers(role, TIMEOUT_S)
    for worker_id in ids:
        asyncio.run(scheduler.create_engine(worker_id, ENGINE, "e"))
    return ids


def test_workers_answer_in_the_order_of_their_ids(scheduler: CommandScheduler) -> None:
    ids = scheduler.create_workers(job("a", 2, port_count=3))
    assert ids == ["a/0", "a/1"]
    workers = scheduler.get_workers("a", TIMEOUT_S)
    assert [worker.id for worker in workers] == ids
    ports = [port for worker in workers for port in worker.worker_ports]
    assert len(ports) == 6
    assert len({(worker.ip, port) for worker in workers for port in worker.worker_ports}) == 6
    assert all(port.isdecimal() for port in ports)
    with pytest.raises(WorkerCreationError, match="already"):
        scheduler.create_workers(job("a"))
    with pytest.raises(WorkerNotFoundError, match="'b'; known: a"):
        scheduler.get_workers("b")
    logs = scheduler.log_dir
    assert sorted(path.name for path in logs.glob("*.log")) == ["a-0.log", "a-1.log"]
    assert logs.parts[-4:] == ("logs", getpass.getuser(), "e", "t")


def test_calls_bring_values_there_and_back(scheduler: CommandScheduler) -> None:
    (worker,) = made(scheduler, "a")
    args = [1, 2.5, "text", None, True, [1, [2]], (3, 4), {"a": {5: "b"}}]
    rows = {"ids": torch.arange(6).reshape(2, 3), "mask": torch.ones(2, 3, dtype=torch.bool)}
    place = StepInfo(1, 2, 3, 4)
    found, named = scheduler.call_engine(worker, "echo", "e", *args, rows, place=place)
    assert found[:-1] == args
    assert found[-1].keys() == rows.keys()
    assert all(found[-1][name].equal(rows[name]) for name in rows)
    assert found[-1]["mask"].dtype is torch.bool
    assert named == {"place": place}
    assert scheduler.call_engine(worker, "later", "e", 7) == 7
    assert asyncio.run(scheduler.async_call_engine(worker, "asked", None, "x")) == "x"
    assert scheduler.call_engine(worker, "count", "e") == 1


def test_what_goes_wrong_in_an_engine_comes_back(scheduler: CommandScheduler) -> None:
    (worker,) = made(scheduler, "a")
    with pytest.raises(EngineCallError, match="ValueError: no such luck") as raised:
        scheduler.call_engine(worker, "fail", "e", "no such luck")
    assert (raised.value.worker_id, raised.value.method) == ("a/0", "fail")
    for method, engine, words in (
        ("nothing", "e", "no method 'nothing'"),
        ("_echo", "e", "no method '_echo'"),
        ("echo", "other", "no engine 'other'; known: e"),
    ):
        with pytest.raises(EngineCallError, match=words):
            scheduler.call_engine(worker, method, engine)
    for path in ("os.system", "tests.echo_worker.EchoEngine", "areal.nothing.Engine"):
        with pytest.raises(EngineImportError, match=path.replace(".", r"\.")):
            asyncio.run(scheduler.create_engine(worker, path, "f"))
    for path in ("areal.api.io_struct.StepInfo", "areal.infra.launch.visible_devices"):
        with pytest.raises(EngineCreationError, match="neither a TrainEngine"):
            asyncio.run(scheduler.create_engine(worker, path, "f"))
    with pytest.raises(EngineCreationError, match="cannot be made"):
        asyncio.run(scheduler.create_engine(worker, ENGINE, "f", is_broken=True))
    with pytest.raises(EngineCreationError, match="already"):
        asyncio.run(scheduler.create_engine(worker, ENGINE, "e"))
    with pytest.raises(WorkerNotFoundError, match="a/7"):
        scheduler.call_engine("a/7", "echo")
    assert scheduler.call_engine(worker, "echo", "e", 1) == [[1], {}]


def test_a_worker_has_the_environment_that_was_asked_for(scheduler: CommandScheduler) -> None:
    (worker,) = made(
        scheduler, "a", cpu=1, env_vars={"OWN": "a b $HOME 'c'", "MKL_NUM_THREADS": "3"}
    )
    asyncio.run(scheduler.set_worker_env(worker, {"LATER": "d"}))
    names = ("OWN", "LATER", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    found = scheduler.call_engine(worker, "environment", "e", *names)
    assert found == ["a b $HOME 'c'", "d", "1", "3"]
    _, folder, paths = scheduler.call_engine(worker, "where", "e")
    assert folder == str(Path.cwd())
    assert str(Path.cwd()) in paths


def test_a_worker_that_ends_is_named_with_its_last_words(scheduler: CommandScheduler) -> None:
    worker, other = made(scheduler, "a", 2)
    with pytest.raises(WorkerFailedError, match="last words of a worker") as raised:
        scheduler.call_engine(worker, "die", "e", 7)
    assert (raised.value.worker_id, raised.value.exit_code) == ("a/0", 7)
    assert scheduler.call_engine(other, "echo", "e", 1) == [[1], {}]


def test_a_command_that_fails_or_never_answers_is_an_error(scheduler: CommandScheduler) -> None:
    scheduler.create_workers(job("a", cmd="python -m tests.no_such_worker"))
    with pytest.raises(WorkerFailedError, match="No module named"):
        scheduler.get_workers("a", TIMEOUT_S)
    # Whether it is noticed at once depends on where it is started.
    failures = (WorkerCreationError, WorkerFailedError)
    with pytest.raises(failures, match="no_such_program"):  # noqa: PT012 - as above
        scheduler.create_workers(job("b", cmd="no_such_program"))
        scheduler.get_workers("b", TIMEOUT_S)
    scheduler.create_workers(
        job("c", cmd="python -c 'import time; print(\"up\", flush=True); time.sleep(600)'")
    )
    with pytest.raises(WorkerTimeoutError, match=r"c/0 did not answer in 0\.2 s"):
        scheduler.get_workers("c", 0.2)
    with pytest.raises(WorkerCreationError, match="must not contain --port"):
        scheduler.create_workers(job("d", cmd=f"{COMMAND} --port 1"))


def test_deleted_workers_end_with_what_they_started(scheduler: CommandScheduler) -> None:
    (worker,) = made(scheduler, "a")
    made(scheduler, "b")
    pids = [
        scheduler.call_engine(worker, "where", "e")[0],
        scheduler.call_engine(worker, "start_child", "e"),
    ]
    assert all(map(is_running, pids))
    scheduler.delete_workers("a")
    until(lambda: not any(map(is_running, pids)))
    with pytest.raises(WorkerNotFoundError):
        scheduler.get_workers("a")
    assert scheduler.call_engine("b/0", "echo", "e", 1) == [[1], {}]
    assert "destroyed" in (scheduler.log_dir / "a-0.log").read_text()
    # The role is free again.
    assert made(scheduler, "a") == ["a/0"]
    scheduler.delete_workers(reverse_order=True)
    with pytest.raises(WorkerNotFoundError, match="known: none"):
        scheduler.get_workers("b")


def test_roles_share_devices_or_processes(scheduler: CommandScheduler) -> None:
    made(scheduler, "a", 2)
    share = SchedulingStrategy("colocation", target="a", fork=False)
    assert scheduler.create_workers(Job("b", 2, [spec()], share)) == ["a/0", "a/1"]
    assert [worker.id for worker in scheduler.get_workers("b")] == ["a/0", "a/1"]
    beside = SchedulingStrategy("colocation", target="a", fork=True)
    assert scheduler.create_workers(Job("c", 2, [spec()], beside)) == ["c/0", "c/1"]
    assert scheduler.fork_workers("d", "a", COMMAND) == ["d/0", "d/1"]
    pids = set()
    for role in ("c", "d"):
        for worker in scheduler.get_workers(role, TIMEOUT_S):
            asyncio.run(scheduler.create_engine(worker.id, ENGINE, "e"))
            pids.add(scheduler.call_engine(worker.id, "where", "e")[0])
    assert len(pids) == 4
    with pytest.raises(WorkerCreationError, match="has 3 workers and 'a'"):
        scheduler.create_workers(Job("f", 3, [spec()], beside))
    scheduler.delete_workers("b")
    assert scheduler.call_engine("a/0", "echo", "e", 1) == [[1], {}]
