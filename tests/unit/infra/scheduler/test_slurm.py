"""Batch files as Slurm gets them, and jobs that end."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import SchedulingSpec
from areal.api.errors import ConfigError
from areal.api.scheduler_api import Job
from areal.infra.scheduler import SlurmScheduler, slurm
from areal.infra.scheduler.base import Command
from areal.infra.scheduler.exceptions import WorkerCreationError
from areal.infra.scheduler.slurm import SlurmProcess, batch_file, container, tasks_file
from tests import fake_slurm
from tests.echo_worker import COMMAND, ENGINE
from tests.scheduler_kinds import slurm_programs

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "slurm"
TIMEOUT_S = 60.0

PATHS: dict[str, Path] = {
    "log_path": Path("/logs/slurm/actor.log"),
    "environment": Path("/logs/slurm/actor.env"),
    "alive": Path("/logs/names/1/launcher/ENTRY"),
    "tasks": Path("/logs/slurm/my actor.sh"),
}
CASES: dict[str, tuple[SchedulingSpec, int, dict[str, Any]]] = {
    "cpus": (SchedulingSpec(cpu=4, mem=8), 3, {}),
    "devices": (
        SchedulingSpec(
            cpu=8,
            gpu=1,
            mem=32,
            image="/images/areal.sif",
            mount="/d:/d",
            nodelist="n[1-4]",
            exclude="n2",
            reservation="mine",
            exclusive=True,
            additional_bash_cmds=["module load cuda", "ulimit -n 65536"],
        ),
        16,
        {},
    ),
    "scheduler_wins": (
        SchedulingSpec(cpu=1, mem=0, image="/images/areal.sif"),
        1,
        {"srun_options": "--mpi=none", "kind": "none"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_batch_file_is_what_was_reviewed(
    case: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/home/user/run")
    spec, num_tasks, options = CASES[case]
    options = dict(options)
    inside = container(spec, options.pop("kind", None))
    text = batch_file("e_t:actor", spec, num_tasks, 8, container=inside, **PATHS, **options)
    golden = GOLDEN / f"{case}.sbatch"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(("gpu", "num_tasks"), [(1, 4), (3, 8), (1, 12)])
def test_parts_of_machines_are_refused(gpu: int, num_tasks: int) -> None:
    with pytest.raises(ValueError, match=f"{num_tasks} workers of {gpu} devices"):
        batch_file("j", SchedulingSpec(gpu=gpu), num_tasks, 8, **PATHS)


@pytest.mark.parametrize(("gpu", "num_tasks", "num_nodes"), [(1, 8, 1), (8, 3, 3), (2, 8, 2)])
def test_whole_machines_are_asked_for(gpu: int, num_tasks: int, num_nodes: int) -> None:
    text = batch_file("j", SchedulingSpec(gpu=gpu), num_tasks, 8, **PATHS)
    assert f"#SBATCH --nodes={num_nodes}\n" in text
    assert f"#SBATCH --ntasks-per-node={num_tasks // num_nodes}\n" in text
    assert "#SBATCH --gres=gpu:8\n" in text


def test_there_is_no_container_unless_one_is_named(tmp_path: Path) -> None:
    assert container(SchedulingSpec()) == ""
    assert container(SchedulingSpec(image="")) == ""
    named = SchedulingSpec(image="/i.sif", gpu=1)
    assert container(named) == "apptainer exec --nv --bind /storage:/storage /i.sif"
    assert container(named, mounts="/a:/b") == "apptainer exec --nv --bind /a:/b /i.sif"
    assert container(named, "none") == ""
    with pytest.raises(ValueError, match="container_type 'docker' is unknown"):
        container(SchedulingSpec(image="/i.sif", container_type="docker"))


def make(folder: Path, **options: Any) -> SlurmScheduler:
    return SlurmScheduler(experiment_name="e", trial_name="t", fileroot=str(folder), **options)


def job(**fields: Any) -> Job:
    return Job("a", 1, [SchedulingSpec(**{"cpu": 1, "mem": 1, "cmd": COMMAND, **fields})])


def test_each_task_runs_its_own_command_and_notes_its_end(tmp_path: Path) -> None:
    commands = [
        Command(f"a/{i}", argv, {"I": f"{i} '"}, SchedulingSpec(), tmp_path / f"a-{i}.log")
        for i, argv in enumerate((["echo", "it's $HOME"], ["sh", "-c", "echo $I; exit 3"]))
    ]
    processes = [SlurmProcess(command, None) for command in commands]  # type: ignore[arg-type]  # submits nothing
    script = tmp_path / "a.sh"
    script.write_text(tasks_file(processes))
    for index in range(2):
        environment = {**os.environ, "SLURM_PROCID": str(index)}
        subprocess.run(["bash", str(script)], env=environment, check=True)
    assert [command.log_path.read_text() for command in commands] == ["it's $HOME\n", "1 '\n"]
    assert [process.exit_path.read_text() for process in processes] == ["0\n", "3\n"]


def test_a_machine_that_submits_no_jobs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="needs sbatch, squeue, scancel, srun on the PATH"):
        make(tmp_path)


def test_the_key_is_for_the_owner_alone(tmp_path: Path) -> None:
    with slurm_programs(tmp_path):
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        folder = scheduler.log_dir / "slurm"
        environment = folder / "a.env"
        assert stat.S_IMODE(environment.stat().st_mode) == 0o600
        assert f"AREAL_SERVER_KEY={scheduler.key}" in environment.read_text()
        for other in ("a.sbatch", "a.sh"):
            assert scheduler.key not in (folder / other).read_text()
        scheduler.close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "srun --unbuffered --ntasks=1 apptainer exec --bind /a:/b /i.sif bash "),
        ({"container_type": "none"}, "srun --unbuffered --ntasks=1 bash "),
        (
            {"container_mounts": "/c:/d", "srun_additional_args": "--mpi=none"},
            "srun --mpi=none --ntasks=1 apptainer exec --bind /c:/d /i.sif bash ",
        ),
    ],
)
def test_a_specification_counts_where_the_scheduler_was_given_nothing_else(
    tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    with slurm_programs(tmp_path):
        scheduler = make(tmp_path, **options)
        spec = {"image": "/i.sif", "mount": "/a:/b", "srun_additional_args": "--unbuffered"}
        scheduler.create_workers(job(**spec))
        assert expected in (scheduler.log_dir / "slurm" / "a.sbatch").read_text()
        scheduler.close()


def test_what_sbatch_refuses_has_its_reason(tmp_path: Path) -> None:
    with slurm_programs(tmp_path):
        scheduler = make(tmp_path)
        with pytest.raises(WorkerCreationError, match="unrecognized options"):
            scheduler.create_workers(job(reservation="none"))
        scheduler.create_workers(job())
        scheduler.get_workers("a", TIMEOUT_S)
        scheduler.close()


LAUNCHER = """
import sys
from areal.api.cli_args import SchedulingSpec
from areal.api.scheduler_api import Job
from areal.infra.scheduler import SlurmScheduler, slurm

slurm._ALIVE_S = 3
slurm._BATCH = slurm._BATCH.replace("sleep 10", "sleep 0.5")
scheduler = SlurmScheduler(experiment_name="e", trial_name="t", fileroot=sys.argv[1])
spec = SchedulingSpec(cpu=1, mem=1, cmd="python -m tests.echo_worker")
scheduler.create_workers(Job("a", 1, [spec]))
scheduler.get_workers("a", 60)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.heavy
def test_a_job_ends_when_its_launcher_was_killed(tmp_path: Path) -> None:
    with slurm_programs(tmp_path):
        with subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, tmp_path],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as launcher:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == b"ready\n"
            time.sleep(4)  # longer than a job outlives its launcher
            running = subprocess.run(
                ["squeue", "--noheader", "--jobs=1", "--format=%T|%r"], check=False
            )
            assert running.returncode == 0
            launcher.send_signal(signal.SIGKILL)
            launcher.wait(TIMEOUT_S)
        give_up_at = time.monotonic() + TIMEOUT_S
        while running.returncode == 0:
            assert time.monotonic() < give_up_at
            time.sleep(0.2)
            running = subprocess.run(
                ["squeue", "--noheader", "--jobs=1", "--format=%T|%r"],
                check=False,
                capture_output=True,
            )


def fails(process: Any) -> int:
    give_up_at = time.monotonic() + TIMEOUT_S
    while (code := process.exit_code()) is None:
        assert time.monotonic() < give_up_at
        time.sleep(0.1)
    return int(code)


def end_job(state: str, folder: Path, number: int = 1) -> None:
    """End a job as Slurm does: at once, so that no task notes anything."""
    path = folder / "jobs" / str(number)
    (path / "state").write_text(state)
    for group in path.glob("group-*"):
        os.killpg(int(group.name.partition("-")[2]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("state", "code"), [("NODE_FAIL", -9), ("TIMEOUT", -9), ("CANCELLED", 143), ("", -9)]
)
def test_how_slurm_ended_a_job_is_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    state: str,
    code: int,
) -> None:
    monkeypatch.setattr(slurm, "_STATE_VALID_S", 0.2)
    with slurm_programs(tmp_path):
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        scheduler.get_workers("a", TIMEOUT_S)
        (process,) = scheduler._processes["a"]
        end_job(state, tmp_path)
        assert fails(process) == code
        assert fails(process) == code
        (record,) = [r for r in caplog.records if "has ended" in r.getMessage()]
        assert (
            f"a/0 has ended: job 1 of Slurm is {state or 'gone from the queue'}" in record.message
        )
        started = time.monotonic()
        scheduler.close()  # which waits for no job that is over
        assert time.monotonic() - started < 5


def test_accounting_knows_what_the_queue_has_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slurm, "_STATE_VALID_S", 0.2)
    with slurm_programs(tmp_path):
        sacct = tmp_path / "bin" / "sacct"
        sacct.write_text("#!/bin/sh\necho 'CANCELLED by 1000'\n")
        sacct.chmod(0o755)
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        (process,) = scheduler._processes["a"]
        end_job("", tmp_path)
        (tmp_path / "jobs/1/state").unlink()
        assert fails(process) == 143
        assert "is CANCELLED" in caplog.text
        scheduler.close()


def test_what_waits_for_its_place_is_told_and_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slurm, "_STATE_VALID_S", 0.2)
    full = tmp_path / "jobs" / "full"
    with slurm_programs(tmp_path):
        full.parent.mkdir()
        full.touch()
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        timer = threading.Timer(1.0, full.unlink)
        timer.start()
        scheduler.await_places(scheduler._processes["a"])
        assert not full.exists()
        timer.join()
        assert caplog.text.count("job 1 of Slurm waits for its place: Resources") == 1
        scheduler.get_workers("a", TIMEOUT_S)
        scheduler.close()
        # What ends while it waits is not waited for.
        full.touch()
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        end_job("CANCELLED", tmp_path, 2)
        (process,) = scheduler._processes["a"]
        scheduler.await_places([process])
        assert process.exit_code() == 143
        scheduler.close()


def test_jobs_have_the_environment_where_a_site_would_not_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    monkeypatch.setenv("OF_THE_SHELL", "x y")
    with slurm_programs(tmp_path):
        scheduler = make(tmp_path)
        scheduler.create_workers(job())
        scheduler.get_workers("a", TIMEOUT_S)
        asyncio.run(scheduler.create_engine("a/0", ENGINE, "e"))
        assert scheduler.call_engine("a/0", "environment", "e", "OF_THE_SHELL") == ["x y"]
        scheduler.close()


def test_a_job_that_is_submitted_while_a_signal_arrives_is_cancelled(tmp_path: Path) -> None:
    with slurm_programs(tmp_path):
        sbatch = tmp_path / "bin" / "sbatch"
        sbatch.rename(tmp_path / "sbatch")
        sbatch.write_text(
            f'#!/bin/sh\n{tmp_path}/sbatch "$@"\ntouch {tmp_path}/submitted\nsleep 1\n'
        )
        sbatch.chmod(0o755)
        scheduler = make(tmp_path)

        def interrupt() -> None:
            while not (tmp_path / "submitted").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            scheduler.create_workers(job())
        scheduler.close()
        batch = int((tmp_path / "jobs/1/batch").read_text())
        assert not fake_slurm.is_running(batch)
