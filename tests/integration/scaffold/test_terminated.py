"""A command that is told to end takes what it started with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.scaffold.conftest import ROOT, run_scaffold

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def wait_for(path: Path, seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.is_file() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written in {seconds} s")


def test_verify_ends_the_tests_that_it_runs(tmp_path: Path) -> None:
    run_scaffold(tmp_path, "new", "my_rl")
    project = tmp_path / "my_rl"
    run_scaffold(project, "add-reward", "slow", "--style", "exact", "--no-format")
    note = tmp_path / "pid"
    test = project / "tests" / "reward" / "test_slow.py"
    sleep = f"import os, pathlib, time\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
    test.write_text(f"{sleep}time.sleep(120)\n")
    command = [sys.executable, "-m", "scaffold", "verify", "reward/slow"]
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        child = int(wait_for(note, 60))
        assert is_running(child)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
        time.sleep(0.5)
        assert not is_running(child)
    finally:
        process.kill()


def copies_of(pid: int) -> list[int]:
    """Returns the processes that another one made of itself."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    whole = Path(f"/proc/{pid}/cmdline").read_bytes()
    return [int(each) for each in found if Path(f"/proc/{each}/cmdline").read_bytes() == whole]


def wait_for_copies(pid: int, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := copies_of(pid):
                return found
        except OSError:  # one of them came to its end
            pass
        time.sleep(0.01)
    raise AssertionError(f"{pid} made no copy of itself in {seconds} s")


@pytest.fixture
def many_skills(tmp_path: Path) -> Path:
    """Returns a folder with so many skills that they are shared among the cores for seconds."""
    rows = (f"- Read `src/part_{number}/x.py`, call `run_{number}()`.\n" for number in range(99))
    text = "\n# Do it\n\n" + "".join(rows)
    for number in range(300):
        name = f"do-{number}"
        skill = tmp_path / ".agents" / "skills" / name / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: {name}\ndescription: Does it. Use it.\n---\n{text}{name}\n")
    return tmp_path


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no list of child processes")
def test_a_check_that_is_interrupted_ends_its_copies_and_says_little(many_skills: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core shares with none")
    told = many_skills / "told.txt"
    with told.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "scaffold", "skills", "check", "--no-cache"],
            cwd=many_skills,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
    try:
        copies = wait_for_copies(process.pid, 60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        assert process.wait(20) == 130
        assert not [each for each in copies if is_running(each)]
        assert told.read_text().split() == ["error:", "stopped", "[aborted]"]
    finally:
        process.kill()


def test_deps_plan_leaves_no_resolver_and_no_scratch_folder(tmp_path: Path) -> None:
    tree, scratch, note = (tmp_path / each for each in ("tree", "scratch", "pid"))
    tree.mkdir()
    scratch.mkdir()
    (tree / "requirements.txt").write_text("click==8.1.7\n")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 120\n")
    python.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "scaffold", "deps", "plan", "click==8.1.8", "--python", str(python)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        child = int(wait_for(note, 60))
        assert list(scratch.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
        assert not is_running(child)
        assert not list(scratch.iterdir())
    finally:
        process.kill()
