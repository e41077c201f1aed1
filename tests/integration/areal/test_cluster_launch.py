"""The same command and YAML on several machines: jobs of Slurm, and nodes of Ray that go away."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from areal.trainer.cli import main
from tests.integration.areal.conftest import command, environment
from tests.integration.areal.test_launch import (
    SECTIONS,
    STEPS,
    TIMEOUT_S,
    finish,
    has_step,
    rows_of,
    running,
    start_script,
    wait_until,
)
from tests.scheduler_kinds import RAY_SETTINGS, ray_cluster, slurm_programs, started_by_hand, until
from tests.tiny_runs import rl_yaml, train_stats

SMALL = [{"cpu": 1, "mem": 1}]


def write_config(folder: Path, scheduler: str, **sections: Any) -> None:
    parts: dict[str, Any] = {
        **SECTIONS,
        "scheduler": {"type": scheduler},
        "actor": {
            "optimizer": {"lr": 0.01, "warmup_steps": 0},
            "scheduling_spec": SMALL,
            "backend": "fsdp:d2",
        },
        "rollout": {
            "deterministic_sampling": True,
            "backend": "local:d2",
            "scheduling_spec": SMALL,
            "poll_interval": 0.2,
        },
        "cluster": {"fileroot": str(folder), "n_gpus_per_node": 1, "n_nodes": 2},
    }
    rl_yaml(folder, **(parts | sections))


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("train", "-c", "config.yaml", *overrides),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Path]:
    """A folder for a run, beside programs that take the place of Slurm's."""
    with slurm_programs(tmp_path):
        yield tmp_path / "run"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a run on one machine does at each step."""
    folder = tmp_path_factory.mktemp("local")
    write_config(folder, "local")
    finish(start(folder, "cluster.n_nodes=1"))
    return rows_of(folder)


def assert_same_steps(folder: Path, expected: list[Any]) -> None:
    found = rows_of(folder)
    assert len(found) == len(expected) == STEPS
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.slow
def test_a_run_under_slurm_does_what_one_machine_does(slurm: Path, undisturbed: list[Any]) -> None:
    write_config(slurm, "slurm")
    output = finish(start_script(slurm))
    assert f"step {STEPS}/{STEPS}" in output
    assert_same_steps(slurm, undisturbed)
    logs = {path.name for path in (slurm / "e/t/logs").glob("*.log")}
    assert logs >= {"server-0.log", "server-1.log", "ranks-0.log", "ranks-1.log", "rank-1.log"}
    assert not running(slurm)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_slurm_runs_ends_with_the_launcher(slurm: Path, number: int) -> None:
    write_config(slurm, "slurm", total_train_steps=10_000)
    launcher = start(slurm)
    wait_until(lambda: has_step(slurm, 2), launcher, "two steps are done")
    launcher.send_signal(number)
    output = launcher.communicate(timeout=TIMEOUT_S)[0]
    assert launcher.returncode in (130, 143), output
    assert not running(slurm)
    assert "Traceback" not in output
    assert (slurm / "e/t/report.html").is_file()
    # The same command goes on.
    steps = len(train_stats(slurm)) + 2
    finish(start(slurm, f"total_train_steps={steps}"))
    assert len(train_stats(slurm)) == steps


@pytest.mark.slow
def test_jobs_may_wait_longer_for_a_place_than_servers_for_answers(
    slurm: Path, undisturbed: list[Any]
) -> None:
    write_config(slurm, "slurm")
    full = slurm.parent / "jobs" / "full"
    full.parent.mkdir()
    full.touch()
    launcher = start(slurm)
    submitted = full.with_name("1") / "pending"
    wait_until(submitted.exists, launcher, "the servers' job is queued")
    launcher.send_signal(signal.SIGTERM)
    output = launcher.communicate(timeout=TIMEOUT_S)[0]
    assert launcher.returncode in (130, 143), output
    assert "Traceback" not in output
    assert not running(slurm)
    launcher = start(slurm, "rollout.setup_timeout=10")
    wait_until(full.with_name("2").is_dir, launcher, "the servers' job is queued")
    time.sleep(20)
    assert not full.with_name("3").exists()  # ranks would give up
    full.unlink()
    assert "waits for its place: Resources" in finish(launcher)
    assert_same_steps(slurm, undisturbed)


def test_a_machine_without_slurm_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path, "slurm")
    done = CliRunner().invoke(main, ["train", "-c", str(tmp_path / "config.yaml")])
    assert done.exit_code == 1
    assert "scheduler.type=slurm needs sbatch" in done.stderr


@pytest.mark.slow
def test_what_ray_runs_ends_with_the_launcher(tmp_path: Path) -> None:
    write_config(tmp_path, "ray", total_train_steps=10_000)
    with ray_cluster(num_nodes=2, num_cpus=2) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            launcher = start(tmp_path)
        wait_until(lambda: has_step(tmp_path, 2), launcher, "two steps are done")
        launcher.send_signal(signal.SIGTERM)
        output = launcher.communicate(timeout=TIMEOUT_S)[0]
        assert launcher.returncode == 143, output
        assert (tmp_path / "e/t/report.html").is_file()
        assert not running(tmp_path)
        # Killed, it takes along what it started as well.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            launcher = start(tmp_path)
        steps = len(train_stats(tmp_path))
        wait_until(lambda: has_step(tmp_path, steps + 1), launcher, "a step more is done")
        launcher.kill()
        launcher.communicate()
        give_up_at = time.monotonic() + TIMEOUT_S
        while running(tmp_path):
            assert time.monotonic() < give_up_at
            time.sleep(0.1)


@pytest.mark.slow
def test_what_waits_for_a_place_ends_at_once(tmp_path: Path) -> None:
    large = [{"cpu": 64, "mem": 1}]
    write_config(tmp_path, "ray", actor={"backend": "fsdp:d1", "scheduling_spec": large})
    with ray_cluster(num_nodes=1, num_cpus=4) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            launcher = start(tmp_path)
        log = tmp_path / "e/t/logs/server-1.log"
        wait_until(lambda: log.is_file() and log.stat().st_size, launcher, "servers run")
        launcher.send_signal(signal.SIGTERM)
        output = launcher.communicate(timeout=60)[0]
    assert launcher.returncode == 130, output
    assert "Traceback" not in output
    assert not running(tmp_path)


def is_checkpoint_begun(folder: Path) -> bool:
    return any((folder / "e/t/recover").glob(".step_*"))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["a step", "a checkpoint"])
def test_a_node_of_ray_that_goes_costs_no_row(
    tmp_path: Path, undisturbed: list[Any], moment: str
) -> None:
    write_config(tmp_path, "ray", recover={"freq_steps": 1, "retries": 3})
    # Two processes on each node, of servers and ranks.
    with ray_cluster(num_nodes=1, num_cpus=2) as cluster:
        node = cluster.add_node(
            num_cpus=2, num_gpus=0, memory=64 << 30, object_store_memory=80 << 20
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            launcher = start(tmp_path)
        wait_until(lambda: has_step(tmp_path, 2), launcher, "two steps are done")
        if moment == "a checkpoint":
            wait_until(lambda: is_checkpoint_begun(tmp_path), launcher, moment, look_every_s=0.001)
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=2, num_gpus=0, memory=64 << 30, object_store_memory=80 << 20)
        output = finish(launcher)
    assert "starting it again" in output
    assert_same_steps(tmp_path, undisturbed)
    assert not running(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_head_node_of_ray_that_is_started_again_goes_on_with_the_run(
    tmp_path: Path, undisturbed: list[Any]
) -> None:
    write_config(tmp_path, "ray")
    with pytest.MonkeyPatch.context() as patch:
        for name in RAY_SETTINGS:
            patch.delenv(name, raising=False)
        # Ray's own patience is a minute; after it Ray ends the launcher.
        patch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
        with started_by_hand(tmp_path) as (head, scratch):
            patch.setenv("RAY_TMPDIR", scratch)
            launcher = start(tmp_path)
            wait_until(lambda: has_step(tmp_path, 2), launcher, "two steps are done")
            for each in [*psutil.Process(head.pid).children(recursive=True), head]:
                each.kill()
            output = launcher.communicate(timeout=TIMEOUT_S)[0]
        assert launcher.returncode == 1, output
        until(lambda: not running(tmp_path))
        assert len(train_stats(tmp_path)) < STEPS
        (tmp_path / "again").mkdir()
        with started_by_hand(tmp_path / "again") as (_, scratch):
            patch.setenv("RAY_TMPDIR", scratch)
            output = finish(start(tmp_path))
    assert "resuming from step" in output
    assert_same_steps(tmp_path, undisturbed)
    assert not running(tmp_path)
