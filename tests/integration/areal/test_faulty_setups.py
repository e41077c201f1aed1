"""What could not be set up leaves no thread and no process behind, and says why it could not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from areal import PPOTrainer
from areal.api import FinetuneSpec
from areal.api.cli_args import (
    GRPOConfig,
    InferenceEngineConfig,
    PPOActorConfig,
    SchedulingSpec,
    load_expr_config,
)
from areal.api.errors import ConfigError
from areal.api.scheduler_api import Job
from areal.engine import RemoteLocalEngine
from areal.engine.fsdp_engine import FSDPPPOActor
from areal.engine.local.server import InferenceServer
from areal.engine.weight_sync import WeightFileServer
from areal.infra.controller.callback import CallbackServer
from areal.infra.launch import Launcher, LaunchError, LaunchPlan
from areal.infra.scheduler import LocalScheduler, SlurmScheduler
from areal.infra.scheduler.exceptions import (
    EngineCallError,
    EngineCreationError,
    GPUAllocationError,
    WorkerCreationError,
)
from tests.echo_worker import COMMAND
from tests.fakes import InstantEngine, tiny_tokenizer
from tests.scheduler_kinds import slurm_programs, until
from tests.tiny_runs import rl_yaml
from tests.unit.engine.local.test_server import make_engine

# An address that belongs to no machine (RFC 5737).
NOWHERE = "192.0.2.1"


class Agent:
    """Is never asked: what it would reach the model through does not start."""

    async def run(self, data: dict[str, Any], **_: Any) -> float:
        return 1.0


@contextmanager
def nothing_stays() -> Iterator[None]:
    """Compares the threads and the descendants of this process with those before."""
    threads = set(threading.enumerate())
    children = set(psutil.Process().children(recursive=True))

    def left() -> list[str]:
        found = [thread.name for thread in threading.enumerate() if thread not in threads]
        for child in psutil.Process().children(recursive=True):
            try:
                if child not in children and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(child.cmdline()))
            except psutil.NoSuchProcess:
                continue
        return found

    yield
    try:
        until(lambda: not left(), timeout_s=10.0)
    except AssertionError:
        raise AssertionError(f"is left: {left()}") from None


def trainer(folder: Path, *overrides: str, **sections: Any) -> PPOTrainer:
    path = rl_yaml(folder, **sections)
    return PPOTrainer(load_expr_config(["--config", str(path), *overrides], GRPOConfig)[0])


def test_a_trainer_whose_workflow_cannot_be_made(tmp_path: Path) -> None:
    with (
        nothing_stays(),
        pytest.raises(ConfigError, match=r"run\.workflow"),
        trainer(tmp_path, "run.workflow_kwargs={moood: 1}") as made,
    ):
        made.train()


def test_a_trainer_that_cannot_be_made_itself(tmp_path: Path) -> None:
    with nothing_stays(), pytest.raises(ConfigError, match="no checkpoint folder"):
        trainer(tmp_path, "ref.path=./no/such/folder", "actor.kl_ctl=0.1")


def test_agents_that_cannot_be_served_where_they_are_to_be(tmp_path: Path) -> None:
    with (
        nothing_stays(),
        pytest.raises(OSError, match="assign requested address"),
        trainer(
            tmp_path,
            f"run.workflow={__name__}.Agent",
            f"run.agent_host={NOWHERE}",
            "rollout.agent.admin_api_key=own",
        ) as made,
    ):
        made.train()


@pytest.mark.parametrize(("host", "port"), [(NOWHERE, 0), ("127.0.0.1", 65536)])
def test_a_server_that_cannot_listen(host: str, port: int) -> None:
    server = InferenceServer(make_engine(), tiny_tokenizer(), host=host, port=port, api_key="key")
    with nothing_stays(), pytest.raises(ConfigError, match=f"cannot listen on {host}:{port}"):
        server.start()


def test_a_role_of_which_one_worker_has_no_devices(tmp_path: Path) -> None:
    scheduler = LocalScheduler([], experiment_name="e", trial_name="t", fileroot=str(tmp_path))
    specs = [SchedulingSpec(gpu=number, cmd=COMMAND) for number in (0, 1)]
    with nothing_stays(), pytest.raises(GPUAllocationError, match="a/1 asks for 1 devices"):
        scheduler.create_workers(Job("a", 2, specs))
    scheduler.close()


def test_a_job_that_slurm_refuses(tmp_path: Path) -> None:
    with slurm_programs(tmp_path), nothing_stays():
        scheduler = SlurmScheduler(experiment_name="e", trial_name="t", fileroot=str(tmp_path))
        with pytest.raises(WorkerCreationError, match="unrecognized options"):
            scheduler.create_workers(Job("a", 1, [SchedulingSpec(nodelist="no", cmd=COMMAND)]))
        scheduler.close()


def test_callbacks_that_need_a_key_and_have_none() -> None:
    server = CallbackServer(InstantEngine(lambda _: []), "", is_on_one_machine=False)
    with nothing_stays(), pytest.raises(ValueError, match="set a key"):
        server.start()


def test_weights_that_cannot_be_handed_out(tmp_path: Path) -> None:
    with nothing_stays(), pytest.raises(OSError, match="assign requested address"):
        WeightFileServer(tmp_path, NOWHERE, "key")


def test_a_run_of_which_one_server_gives_up(tmp_path: Path) -> None:
    stays = [sys.executable, "-c", "import time; time.sleep(600)"]
    gives_up = [sys.executable, "-c", "raise SystemExit('no room')"]
    plan = LaunchPlan([stays, gives_up], ["-c", "import time; time.sleep(600)"], 1, 3, tmp_path)
    with nothing_stays(), pytest.raises(LaunchError, match="no room"):
        Launcher(plan).run()


def config_of() -> dict[str, Any]:
    spec = (SchedulingSpec(cpu=1),)
    return {"experiment_name": "e", "trial_name": "t", "scheduling_spec": spec}


@pytest.mark.heavy
def test_controlled_processes_whose_model_is_not_there(tmp_path: Path) -> None:
    config = PPOActorConfig(**config_of(), path=str(tmp_path / "missing"), backend="fsdp:d2")
    with nothing_stays():
        scheduler = LocalScheduler(experiment_name="e", trial_name="t", fileroot=str(tmp_path))
        actor = FSDPPPOActor.as_controller(config, scheduler)
        with pytest.raises((EngineCreationError, EngineCallError), match="missing"):
            actor.initialize("actor", FinetuneSpec(1, 40, 4))
        scheduler.close()


@pytest.mark.heavy
def test_servers_behind_a_controller_whose_model_is_not_there(tmp_path: Path) -> None:
    config = InferenceEngineConfig(**config_of(), backend="local:d2")
    with nothing_stays():
        scheduler = LocalScheduler(experiment_name="e", trial_name="t", fileroot=str(tmp_path))
        rollout = RemoteLocalEngine.as_controller(config, scheduler)
        with pytest.raises(EngineCallError, match="ended with code"):
            rollout.initialize("rollout", {"model_path": str(tmp_path / "missing")})
        scheduler.close()
