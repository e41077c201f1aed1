"""Makers of every scheduler that can run on this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from areal.infra.scheduler import LocalScheduler, RayScheduler, SlurmScheduler
from areal.infra.scheduler.base import CommandScheduler
from areal.utils.network import find_free_ports
from tests import fake_slurm

RAY_SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
}

TIMEOUT_S = 60.0


def until(condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until a condition holds."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def local(folder: Path) -> Iterator[CommandScheduler]:
    yield LocalScheduler(experiment_name="e", trial_name="t", fileroot=str(folder))


@contextmanager
def ray(folder: Path) -> Iterator[CommandScheduler]:
    """Of a cluster with two nodes, which are both this machine."""
    with ray_cluster():
        yield RayScheduler(
            experiment_name="e", trial_name="t", fileroot=str(folder), startup_timeout=60
        )


@contextmanager
def ray_cluster(num_nodes: int = 2, num_cpus: int = 4) -> Iterator[Any]:
    """A running cluster that this process is connected to."""
    # Ray reads it once, when it is imported; without, it writes a token into the home folder.
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": num_cpus, "num_gpus": 0, "memory": 64 << 30}
    node["object_store_memory"] = 80 << 20
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        for _ in range(num_nodes - 1):
            cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def started_by_hand(
    folder: Path, **variables: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A cluster without a token that this process is not connected to, and its RAY_TMPDIR.

    Args:
        folder: Gets the log.
        **variables: Of its environment.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    kept |= {"RAY_USAGE_STATS_ENABLED": "0"}
    (port,) = find_free_ports(1, (6400, 7000))  # outside those of its workers
    words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=4"]
    options = ["--include-dashboard=false", "--object-store-memory=100000000"]
    log_path = folder / "ray.log"
    with (
        # A short path: Ray makes sockets in it.
        tempfile.TemporaryDirectory(dir="/tmp") as scratch,
        log_path.open("wb") as log,
        subprocess.Popen(
            [Path(sys.executable).with_name("ray"), *words, *options],
            env={**kept, "RAY_TMPDIR": scratch, **variables},
            stdout=log,
            stderr=log,
        ) as head,
    ):
        try:
            until(lambda: "Ray runtime started" in log_path.read_text())
            yield head, scratch
        finally:
            head.terminate()


@contextmanager
def slurm(folder: Path) -> Iterator[CommandScheduler]:
    """With programs in the place of Slurm's that run jobs on this machine."""
    with slurm_programs(folder):
        yield SlurmScheduler(experiment_name="e", trial_name="t", fileroot=str(folder))


@contextmanager
def slurm_programs(folder: Path) -> Iterator[None]:
    """sbatch and its like on the PATH."""
    fake_slurm.install(folder / "bin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("FAKE_SLURM", str(folder / "jobs"))
        yield


KINDS: dict[str, Callable[[Path], AbstractContextManager[CommandScheduler]]] = {
    "local": local,
    "ray": ray,
    "slurm": slurm,
}
