"""Work that is shared among processes: nothing is lost, and nothing is left behind.

Each case runs in a process of its own: one with threads, as a worker of pytest is, makes no copies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scaffold.analysis.files.files import Files
from scaffold.skills.check.sharing import WORTHWHILE, work_through

ROOT = Path(__file__).parents[5]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

_SCRIPT = """
import json, os, sys, warnings
from pathlib import Path
from scaffold.analysis.files.files import Files
from scaffold.skills.check.sharing import work_through

warnings.simplefilter("error")
FIRST = os.getpid()
files = Files(Path("."), [], has_git=False)

def work(task):
    files.read.add(f"{task}.py")
    WORK
    return [task, os.getpid()]

rows, error = [], ""
try:
    rows = work_through(range(NUMBER), work, files, 3)
except Exception as raised:
    error = repr(raised)
try:
    os.waitpid(-1, os.WNOHANG)
    left = True
except ChildProcessError:
    left = False
found = {"rows": rows, "error": error, "first": FIRST, "left": left, "read": sorted(files.read)}
print(json.dumps(found))
"""


def shared(work: str = "", number: int = 3 * WORTHWHILE) -> dict[str, Any]:
    """Shares the numbers up to a number among three processes, and returns what came of it."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            _SCRIPT.replace("WORK", work or "pass").replace("NUMBER", str(number)),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def test_what_three_processes_give_stands_in_the_order_of_the_tasks():
    found = shared()
    assert [task for task, _ in found["rows"]] == list(range(3 * WORTHWHILE))
    processes = [process for _, process in found["rows"]]
    assert len(set(processes)) == 3
    assert processes[0] == found["first"], "what it loads, the others need not"
    assert found["read"] == sorted(f"{number}.py" for number in range(3 * WORTHWHILE))
    assert not found["left"]


def test_few_tasks_are_done_by_one_process():
    found = shared(number=2 * WORTHWHILE - 1)
    assert {process for _, process in found["rows"]} == {found["first"]}


def test_what_a_process_loses_is_made_by_the_first_one():
    found = shared("if os.getpid() != FIRST and task == 5: os._exit(3)")
    assert [task for task, _ in found["rows"]] == list(range(3 * WORTHWHILE))
    assert len({process for _, process in found["rows"]}) == 2
    assert not found["left"]


@pytest.mark.parametrize("task", [0, 1, 2, 3])
def test_an_error_in_any_process_is_raised(task: int):
    found = shared(f"if task == {task}: raise ValueError('task {task}')")
    assert found["error"] == f"ValueError('task {task}')"
    assert not found["left"]


def test_a_process_with_threads_works_alone(tmp_path: Path):
    import threading

    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        files = Files(tmp_path, [], has_git=False)
        found = work_through(range(3 * WORTHWHILE), lambda _: os.getpid(), files, 3)
    finally:
        stop.set()
        thread.join()
    assert set(found) == {os.getpid()}
