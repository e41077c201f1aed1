from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scaffold.analysis.process import end_all
from scaffold.verify.process import TAIL_CHARS, run_limited


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("print('fine')", 0, "ended with status 0"),
        ("raise SystemExit(5)", 5, "ended with status 5"),
        ("import os; os.kill(os.getpid(), 9)", -9, "was killed by SIGKILL"),
    ],
)
def test_the_end_is_described(tmp_path: Path, code: str, status: int, text: str) -> None:
    done = run_limited([sys.executable, "-c", code], tmp_path, 30.0, {})
    assert (done.status, done.describe()) == (status, text)


def test_what_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    done = run_limited([sys.executable, "-c", code], tmp_path, 2.0, {})
    assert done.status is None
    assert done.describe() == "was killed at the time limit"
    assert ends(int(done.output))


def test_children_left_behind_are_killed_too(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'while True: pass']).pid)\n"
    )
    done = run_limited([sys.executable, "-c", code], tmp_path, 30.0, {})
    assert done.status == 0
    assert ends(int(done.output))


def ends(pid: int) -> bool:
    """Waits for a process that was killed: the kernel needs a moment to take it down."""
    status = Path(f"/proc/{pid}/stat")
    if not status.parent.parent.is_dir():
        pytest.skip("needs /proc")
    for _ in range(500):
        try:
            if status.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_only_the_end_of_much_output_is_kept(tmp_path: Path) -> None:
    code = "for n in range(10_000): print('line', n)"
    done = run_limited([sys.executable, "-c", code], tmp_path, 30.0, {})
    assert len(done.output) == TAIL_CHARS
    assert done.last_lines(2) == "line 9998\nline 9999"


def test_the_targets_code_sees_its_folder_and_no_accelerator(tmp_path: Path) -> None:
    (tmp_path / "its_own_module.py").write_text("x = 1\n")
    code = (
        "import os, its_own_module\n"
        "names = 'EXTRA CUDA_VISIBLE_DEVICES HF_HUB_OFFLINE PYTHONDONTWRITEBYTECODE'\n"
        "print([os.environ[name] for name in names.split()], os.getcwd())\n"
    )
    done = run_limited([sys.executable, "-c", code], tmp_path, 30.0, {"EXTRA": "yes"})
    assert done.output.strip() == f"['yes', '', '1', '1'] {os.path.realpath(tmp_path)}"
    assert [path.name for path in tmp_path.iterdir()] == ["its_own_module.py"]


def test_all_can_be_ended_from_outside(tmp_path: Path) -> None:
    code = "print('up', flush=True)\nwhile True: pass"
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(run_limited, [sys.executable, "-c", code], tmp_path, 60.0, {})
        while not waiting.done():
            end_all()
            time.sleep(0.01)
    assert waiting.result().describe() == "was killed by SIGKILL"
