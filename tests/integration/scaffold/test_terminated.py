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
        assert process.wait(20) == 1
        time.sleep(0.5)
        assert not is_running(child)
    finally:
        process.kill()
