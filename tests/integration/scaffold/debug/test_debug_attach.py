"""Running ranks that nobody watches: what does `scaffold debug attach` say, and do they go on?"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaffold.debug.stacks import spy
from tests.integration.scaffold.debug.test_debug_run import JOBS, ROOT
from tests.reports import REPORTS

pytestmark = pytest.mark.heavy

STEPS = """\
import os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
until = time.monotonic() + float(sys.argv[1])
going, steps = torch.ones(1), 0
while going.item():
    going.fill_(float(time.monotonic() < until))
    dist.all_reduce(going, dist.ReduceOp.MIN)
    time.sleep(0.01)
    steps += 1
print(steps)
dist.destroy_process_group()
"""


@contextmanager
def running(*command: str, world: int = 2) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts ranks as a scheduler does, each with its place in the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    env = {**os.environ, **given, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, *command], env={**env, "RANK": str(rank)}, stdout=-1, text=True
        )
        for rank in range(world)
    ]
    try:
        yield ranks
    finally:
        for each in ranks:
            each.kill()
            each.communicate()


def attach(*argv: object) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", "attach", "--json", *map(str, argv)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    return done.returncode, report.get("debug", report), done.stderr


def wait_until_stuck(ranks: list[subprocess.Popen[str]], limit_s: float = 60) -> None:
    """Waits until the ranks have used no core for a second."""
    until, before = time.monotonic() + limit_s, None
    while time.monotonic() < until:
        spent = [sum(psutil.Process(each.pid).cpu_times()[:2]) for each in ranks]
        if spent == before and min(spent) > 1:
            return
        before = spent
        time.sleep(1)
    raise AssertionError("the ranks never came to rest")


@pytest.fixture(autouse=True)
def may_look() -> None:
    if not spy(os.getpid())[0]:
        pytest.skip(f"py-spy cannot look here: {spy(os.getpid())[1]}")


def test_who_keeps_the_others_waiting_is_named_and_nobody_is_harmed() -> None:
    with running(str(JOBS), "sleeps") as ranks:
        wait_until_stuck(ranks)
        status, report, errors = attach("--seconds", 1, *(each.pid for each in ranks))
        assert status == 1, errors
        verdict = report["verdict"]
        assert (verdict["kind"], verdict["ranks"]) == ("outside", [1])
        assert "sleeps; rank 0 waits in all_reduce" in verdict["text"]
        assert all(each.poll() is None for each in ranks)
        states = [psutil.Process(each.pid).status() for each in ranks]
        assert set(states) <= {psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING}


def test_a_job_that_goes_on_is_not_blamed_and_ends_well(tmp_path: Path) -> None:
    program = tmp_path / "steps.py"
    program.write_text(STEPS)
    with running(str(program), "12") as ranks:
        time.sleep(6)
        status, report, errors = attach("--seconds", 2, *(each.pid for each in ranks))
        assert (status, report["verdict"]) == (0, None), errors
        assert [each.wait(60) for each in ranks] == [0, 0]
        assert int(ranks[0].stdout.read()) > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "kind", "words"),
    [
        ("collective", "collective", "broadcast"),
        ("receives", "stalled", "recv"),
        ("thread", "outside", "in its own code at"),
    ],
)
def test_other_hangs(bug: str, kind: str, words: str) -> None:
    with running(str(JOBS), bug) as ranks:
        wait_until_stuck(ranks)
        _, report, errors = attach("--seconds", 1, *(each.pid for each in ranks))
        assert report["verdict"] is not None, errors
        assert report["verdict"]["kind"] == kind
        assert words in report["verdict"]["text"]


def test_a_watched_job_answers_with_its_own_record(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scaffold", "debug", "run", "--timeout", "500"]
    job = subprocess.Popen(
        [*command, "--report", str(tmp_path / "r"), "--", sys.executable, str(JOBS), "sleeps", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and len(_ranks(tmp_path / "r")) < 2:
            time.sleep(0.5)
        time.sleep(1)
        status, report, errors = attach("--seconds", 1, job.pid)
        assert status == 1, errors
        assert (report["verdict"]["kind"], report["verdict"]["ranks"]) == ("outside", [1])
        assert "all_reduce SUM float32[4], call 2 of the default group" in report["verdict"]["text"]
        assert job.poll() is None
    finally:
        job.send_signal(signal.SIGINT)
        job.wait(60)


def _ranks(folder: Path) -> list[Path]:
    """Returns the heads of the ranks that have joined."""
    return [each for each in folder.glob("*.head.jsonl") if '"joined"' in each.read_text()]
