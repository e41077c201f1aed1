"""Servers and ranks on this machine, started by one command, and what happens when they die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from areal.api.cli_args import PPOConfig, load_expr_config
from areal.trainer.ppo import PPOTrainer
from areal.utils.network import is_port_free
from tests.integration.areal.conftest import command, environment
from tests.tiny_runs import MODEL, rl_yaml, train_stats

STEPS = 8
TIMEOUT_S = 200
SECTIONS = {
    "total_train_steps": STEPS,
    "run": {"model": {**MODEL, "num_key_value_heads": 2}},  # that two processes can share
    "rollout": {"deterministic_sampling": True},
    "recover": {"freq_steps": 1},
}


SCRIPT = """
import sys
from dataclasses import dataclass

from areal import PPOTrainer
from areal.api.cli_args import PPOConfig, load_expr_config


@dataclass
class OwnConfig(PPOConfig):
    max_turns: int = 1


if __name__ == "__main__":
    config = load_expr_config(sys.argv[1:], OwnConfig)[0]
    with PPOTrainer(config) as trainer:
        trainer.train()
"""


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return run_in(folder, *command("train", "-c", "config.yaml", *overrides))


def start_script(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(SCRIPT)
    return run_in(folder, sys.executable, "train.py", "--config=config.yaml", *overrides)


def run_in(folder: Path, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def descendants(pid: int) -> dict[int, str]:
    """Returns the command lines of all processes below one, by their ids."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        try:
            child = int(entry.name)
            parents[child] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[child] = (entry / "cmdline").read_text().replace("\0", " ")
        except (ValueError, OSError):  # no process, or one that has just ended
            continue
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        found |= {child: commands[child] for child in children}
        waiting += children
    return found


def running(folder: Path) -> list[int]:
    """Returns the processes, but zombies, that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(
    condition: Callable[[], Any],
    process: subprocess.Popen[str],
    what: str,
    look_every_s: float = 0.02,
) -> Any:
    give_up_at = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        if process.poll() is not None:
            raise AssertionError(f"it ended before {what}:\n{process.communicate()[0]}")
        assert time.monotonic() < give_up_at, what
        time.sleep(look_every_s)
    return found


def has_step(folder: Path, step: int) -> bool:
    stats = folder / "e/t/stats.jsonl"
    return stats.is_file() and f'"step": {step},' in stats.read_text()


def listeners(launcher: subprocess.Popen[str]) -> list[tuple[str, str]]:
    """Returns the command line and the address of everything that accepts connections."""
    return [
        (line, connection.laddr.ip)
        for pid, line in descendants(launcher.pid).items()
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


def server_ports(launcher: subprocess.Popen[str]) -> list[int]:
    """Returns the ports that the launcher has told its servers."""
    lines = descendants(launcher.pid).values()
    return [int(found[1]) for line in lines if (found := re.search(r" serve --port (\d+)", line))]


def kill_one(launcher: subprocess.Popen[str], words: str, index: int = 0) -> None:
    """Kills one of the launcher's processes, by what is in its command line."""

    def find() -> list[int]:
        every = descendants(launcher.pid)
        return sorted(pid for pid, line in every.items() if words in line and "ranks" not in line)

    os.kill(wait_until(lambda: find()[index:], launcher, f"there is {words}")[0], signal.SIGKILL)


def finish(process: subprocess.Popen[str]) -> str:
    output = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == 0, output
    return output


def rows_of(folder: Path) -> list[Any]:
    return [
        [stats[name] for name in ("actor_loss", "reward", "grad_norm", "n_valid_tokens")]
        for stats in train_stats(folder)
    ]


def check_same(found: Path, expected: Path) -> None:
    """Checks that each step trained on the same rows: losses differ by the order of sums alone."""
    one, other = rows_of(found), rows_of(expected)
    assert len(one) == len(other) == STEPS
    for mine, theirs in zip(one, other, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the same run in one process."""
    folder = tmp_path_factory.mktemp("one")
    argv = ["--config", str(rl_yaml(folder, **SECTIONS)), "actor.backend=archon:d1"]
    with PPOTrainer(load_expr_config(argv, PPOConfig)[0]) as trainer:
        trainer.train()
    return folder


@pytest.mark.heavy
def test_a_launched_script_listens_here_alone_and_takes_its_processes_along(
    tmp_path: Path,
) -> None:
    rl_yaml(tmp_path, **SECTIONS)
    overrides = ("max_turns=2", "rollout.backend=local:d1", "actor.backend=archon:d2")
    launcher = start_script(tmp_path, *overrides)
    try:
        (port,) = wait_until(lambda: server_ports(launcher), launcher, "a server is started")
        assert not is_port_free(port)  # before the server itself is there
        wait_until(lambda: has_step(tmp_path, 1), launcher, "the first step")
        assert {address for _, address in listeners(launcher)} == {"127.0.0.1"}
    finally:
        launcher.kill()
        launcher.communicate()
    wait_until(lambda: not running(tmp_path), start_nothing(), "all its processes are gone")


@pytest.mark.slow
def test_a_mistake_on_another_rank_is_shown(tmp_path: Path) -> None:
    rl_yaml(tmp_path, **SECTIONS)
    mistake = "if __import__('os').environ.get('RANK') == '1':"
    mistake += "\n            raise KeyError('mine')\n        trainer.train()"
    (tmp_path / "train.py").write_text(SCRIPT.replace("trainer.train()", mistake))
    argv = (sys.executable, "train.py", "--config=config.yaml", "actor.backend=archon:d2")
    launcher = run_in(tmp_path, *argv, "rollout.backend=local:d1")
    output = launcher.communicate(timeout=TIMEOUT_S)[0]
    assert launcher.returncode == 1
    assert "KeyError: 'mine'" in output, output


@pytest.mark.slow
def test_a_run_survives_the_death_of_a_server_a_rank_and_the_launcher(
    tmp_path: Path, undisturbed: Path
) -> None:
    rl_yaml(tmp_path, **SECTIONS)
    overrides = ("rollout.backend=local:d2", "actor.backend=archon:d2")
    launcher = start(tmp_path, *overrides)
    try:
        wait_until(lambda: has_step(tmp_path, 1), launcher, "the first step")
        kill_one(launcher, " serve ")
        wait_until(lambda: has_step(tmp_path, 3), launcher, "steps without that server")
        kill_one(launcher, " train ", index=1)
        wait_until(lambda: has_step(tmp_path, 5), launcher, "steps after the ranks' restart")
    finally:
        launcher.kill()
        launcher.communicate()
    wait_until(lambda: not running(tmp_path), start_nothing(), "all its processes are gone")
    # A script is launched as the command is.
    output = finish(start_script(tmp_path, "max_turns=2", *overrides))
    assert "resuming from step" in output
    check_same(tmp_path, undisturbed)
    assert not running(tmp_path)


def start_nothing() -> Any:
    class Alive:
        @staticmethod
        def poll() -> None: ...

    return Alive


@pytest.mark.slow
def test_what_every_rank_would_refuse_is_said_once(tmp_path: Path) -> None:
    rl_yaml(tmp_path, **SECTIONS)
    process = start(tmp_path, "actor.backend=archon:t2", "train_dataset.path=no.such.loader")
    output = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == 1
    assert output.count("no.such.loader") == 1
    assert "Traceback" not in output
    assert not running(tmp_path)


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_the_run_can_go_on(tmp_path: Path) -> None:
    rl_yaml(tmp_path, **{**SECTIONS, "total_train_steps": 500})
    process = start(tmp_path, "rollout.backend=local:d2")
    wait_until(lambda: has_step(tmp_path, 2), process, "the second step")
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert (tmp_path / "e/t/report.html").is_file()
    assert not running(tmp_path)


@pytest.mark.slow
def test_a_second_run_of_a_trial_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    rl_yaml(tmp_path, **{**SECTIONS, "total_train_steps": 500})
    first = start(tmp_path, "rollout.backend=local:d2")
    try:
        wait_until(lambda: has_step(tmp_path, 1), first, "the first step")
        second = start(tmp_path, "rollout.backend=local:d2")
        output = second.communicate(timeout=TIMEOUT_S)[0]
        assert second.returncode == 1
        assert "another process trains this trial" in output
        wait_until(lambda: has_step(tmp_path, 4), first, "further steps")
    finally:
        first.kill()
        first.communicate()
    wait_until(lambda: not running(tmp_path), start_nothing(), "all its processes are gone")
