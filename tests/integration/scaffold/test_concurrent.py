"""Several commands at once on one repository: all of them come to pass, or say why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaffold.transaction.state import has_journal, locked

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
# The real command; only its patience is set, since a busy machine is no failure.
COMMAND = """
import sys
from scaffold.transaction import state
from scaffold.cli.main import main
state.LOCK_WAIT_S = float(sys.argv.pop(1))
main()
"""


def start(root: Path, *argv: str, patience_s: float = 120.0) -> subprocess.Popen[str]:
    """Starts a command on a target."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(patience_s), *argv, "--target", str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """Copies the project, so that every test may change it."""
    folder = tmp_path / "my_rl"
    shutil.copytree(project, folder)
    return folder


NAMES = [f"number_{letter}" for letter in "abcdefgh"]


def test_eight_that_add_at_once_are_all_registered(root: Path):
    finish([start(root, "add-reward", name) for name in NAMES])
    text = (root / "my_rl" / "reward" / "__init__.py").read_text()
    for name in NAMES:
        assert text.count(f'"{name}":') == 1
        assert (root / "my_rl" / "reward" / f"{name}.py").is_file()
        assert (root / ".scaffold" / "made" / "reward" / f"{name}.toml").is_file()
    assert not has_journal(root)
    assert not list(root.rglob(".scaffold-*"))


def test_the_same_unit_at_once_is_made_once(root: Path):
    processes = [start(root, "add-reward", "same") for _ in range(4)]
    finish(processes)
    text = (root / "my_rl" / "reward" / "__init__.py").read_text()
    assert text.count('"same":') == 1


def test_adding_and_removing_at_once_leaves_what_was_added(root: Path):
    was = (root / "my_rl" / "reward" / "__init__.py").read_bytes()
    finish([start(root, "add-reward", "gone_soon")])
    processes = [
        start(root, "remove", "reward/gone_soon"),
        start(root, "add-reward", "stays"),
        start(root, "add-workflow", "stays", "--style", "rlvr"),
    ]
    finish(processes)
    finish([start(root, "remove", "reward/stays")])
    assert (root / "my_rl" / "reward" / "__init__.py").read_bytes() == was
    assert (root / "my_rl" / "workflow" / "stays.py").is_file()


def test_who_cannot_wait_any_longer_says_for_whom_it_waited(root: Path):
    with locked(root, "add-reward slow"):
        process = start(root, "add-reward", "quick", patience_s=0.1)
        _, errors = process.communicate()
    assert process.returncode == 1
    assert f"scaffold add-reward slow (process {os.getpid()})" in errors
    assert "[locked]" in errors
    assert not (root / "my_rl" / "reward" / "quick.py").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no links without privileges")
def test_a_target_and_a_link_to_it_have_one_lock(root: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(root)
    with locked(root, "add-reward slow"):
        process = start(tmp_path / "link", "add-reward", "quick", patience_s=0.1)
        _, errors = process.communicate()
    assert "[locked]" in errors


def test_reading_and_dry_runs_do_not_wait(root: Path, scaffold: Callable[..., Any]):
    with locked(root, "add-reward slow"):
        for argv in (["status"], ["list"], ["add-reward", "quick", "--dry-run"]):
            done = scaffold(root, *argv)
            assert done.status == 0, done.text


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_the_lock_of_a_killed_command_does_not_block(root: Path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time, pathlib\n"
            "from scaffold.transaction.state import locked\n"
            "with locked(pathlib.Path(sys.argv[1]).resolve(), 'killed'):\n"
            "    print('held', flush=True)\n"
            "    time.sleep(600)",
            str(root),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    finish([start(root, "add-reward", "quick", patience_s=0.1)])
