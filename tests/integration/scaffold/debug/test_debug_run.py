"""Planted bugs on gloo: does the verdict name what was planted, and the rank it was planted in?"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.reports import REPORTS

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[4]
JOBS = Path(__file__).parent / "jobs.py"
LIMIT_S = 30.0
"""What each job may take, from its start to the verdict."""

# The bug -> the verdict, which ranks are named ("last"; "both", the first and the last among them;
# "row", the last two), and words of the verdict.
PLANTED: dict[str, tuple[str, str, str]] = {
    "collective": ("collective", "last", "broadcast root 0 float32[4]"),
    "order": ("order", "last", "another order"),
    "shape": ("shape", "last", "float32[1000]"),
    "dtype": ("dtype", "last", "int32[4]"),
    "root": ("root", "last", "root 1"),
    "reduction": ("reduction", "last", "MAX"),
    "exits": ("exited", "last", "exited with status 0"),
    "leaves": ("exited", "last", "exited with status 7"),
    "raises": ("exited", "last", "raises: ValueError: no such sample: 17"),
    "cleans_up": ("exited", "last", "KeyError: 'weights'"),
    "killed": ("exited", "last", "was killed by SIGKILL"),
    "sleeps": ("outside", "last", "sleeps; "),
    "times_out": ("outside", "last", "times_out; "),
    "spins": ("outside", "last", "spins; "),
    "skips": ("exited", "last", "call 9 of the default group"),
    "groups": ("groups", "both", "wait for each other"),
    "new_groups": ("groups", "last", "new_group ranks=[0]"),
    "receives": ("peer", "both", "recv from rank"),
    "no_partner": ("peer", "both", "recv from rank"),
    "objects": ("outside", "last", "all_gather (in all_gather_object)"),
    "tensor_parallel": ("outside", "last", "all_gather_into_tensor float32["),
    "mesh": ("shape", "row", "broadcast root 0 float32[6]"),
    "reducer": ("collective", "last", "all_reduce of C++ float32[12]"),
    "reducer_skips": ("collective", "last", "all_reduce of C++ float32[576]"),
    "reducer_waits": ("outside", "last", "all_reduce of C++ float32[12]"),
    "absent": ("absent", "last", "never called init_process_group"),
    "memory": ("memory", "last", "allocate memory"),
    "thread": ("outside", "last", "thread; "),
}
QUICK = ("collective", "raises")
# Read as text, as importing the jobs would import torch.
HEALTHY = re.findall(
    r"(?m)^def (\w+)\(\) -> None:", JOBS.with_name("healthy_jobs.py").read_text("utf-8")
)


def watch(
    folder: Path, *command: str, timeout_s: float = 3, options: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any], str]:
    """Runs `scaffold debug run` and returns its exit status, its report and the error stream."""
    argv = ["--json", "--timeout", str(timeout_s), "--report", str(folder / "record"), *options]
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", "run", *argv, "--", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    return done.returncode, report["debug"], done.stderr


def expect(report: dict[str, Any], bug: str, world: int) -> None:
    kind, ranks, words = PLANTED[bug]
    verdict = report["verdict"]
    assert verdict is not None
    assert (verdict["kind"], report["world"]) == (kind, world), verdict
    # With two ranks there is no majority: where they make different calls both are named.
    alone = ranks == "last" and (world > 2 or kind in ("exited", "outside", "absent", "memory"))
    named = [world - 1] if alone else [0, world - 1]
    named = [world - 2, world - 1] if ranks == "row" else named
    assert verdict["ranks"] == named or (ranks == "both" and {*named} < {*verdict["ranks"]}), (
        verdict
    )
    assert words in verdict["text"]
    assert report["seconds"] < LIMIT_S
    assert not any(rank["faults"] for rank in report["ranks"])


@pytest.mark.parametrize("bug", QUICK)
def test_a_bug_between_two_ranks_is_found(bug: str, tmp_path: Path) -> None:
    status, report, errors = watch(tmp_path, sys.executable, str(JOBS), bug, "2")
    assert status == 1, errors
    expect(report, bug, 2)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("bug", PLANTED)
def test_every_bug_is_found(bug: str, world: int, tmp_path: Path) -> None:
    status, report, errors = watch(tmp_path, sys.executable, str(JOBS), bug, str(world))
    assert status == 1, errors
    expect(report, bug, world)


@pytest.mark.parametrize("job", ["fine", pytest.param("rejoins", marks=pytest.mark.slow)])
def test_a_sound_job_is_left_alone(job: str, tmp_path: Path) -> None:
    status, report, errors = watch(tmp_path, sys.executable, str(JOBS), job, "2", timeout_s=20)
    assert (status, report["verdict"], report["status"]) == (0, None, 0), errors
    assert not any(rank["faults"] for rank in report["ranks"])
    ops = {rank["last"]["op"] for rank in report["ranks"]}
    assert ops == {"barrier"}


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("job", HEALTHY)
def test_a_sound_job_of_any_kind_has_no_verdict(job: str, world: int, tmp_path: Path) -> None:
    program = str(JOBS.with_name("healthy_jobs.py"))
    status, report, errors = watch(
        tmp_path, sys.executable, "-W", "ignore", program, job, str(world), timeout_s=60
    )
    assert (status, report["verdict"], report["status"]) == (0, None, 0), errors
    assert not any(rank["faults"] for rank in report["ranks"])


def test_what_torch_dumped_is_matched_without_a_watch(tmp_path: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "2000"}
    job = [sys.executable, str(JOBS), "dumps", "3"]
    subprocess.run(job, cwd=tmp_path, env=env, capture_output=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", "flight", ".", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    verdict = json.loads(done.stdout)["debug"]["verdict"]
    assert (verdict["kind"], verdict["ranks"]) == ("order", [2])
    assert "in call 5 of the default group" in verdict["text"]


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["raises", "sleeps", "absent", "killed", "fine"])
def test_torchrun_is_watched_alike(bug: str, tmp_path: Path) -> None:
    torchrun = str(Path(sys.executable).parent / "torchrun")
    status, report, errors = watch(
        tmp_path, torchrun, "--nproc-per-node", "2", str(JOBS), bug, timeout_s=8
    )
    if bug == "fine":
        assert (status, report["verdict"]) == (0, None), errors
    else:
        expect(report, bug, 2)


@pytest.mark.slow
def test_ranks_that_are_spawned_are_watched_alike(tmp_path: Path) -> None:
    program = tmp_path / "spawn.py"
    program.write_text(
        "import os, sys, torch.multiprocessing as mp\n"
        f"sys.path.insert(0, {str(JOBS.parent)!r})\n"
        "import jobs\n"
        "def one(rank, bug):\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29641', WORLD_SIZE='2')\n"
        "    jobs.main(bug, rank)\n"
        "if __name__ == '__main__':\n"
        "    mp.spawn(one, (sys.argv[1],), nprocs=2)\n"
    )
    _, report, _ = watch(tmp_path, sys.executable, str(program), "raises")
    expect(report, "raises", 2)


def test_a_report_holds_the_stacks_and_the_calls(tmp_path: Path) -> None:
    """One run for the rest of the report, which people see without --json."""
    options = ["--timeout", "1", "--", sys.executable, str(JOBS), "receives", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", "run", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("verdict    peer: ranks 0-1 wait for each other: rank 0 is in recv")
    assert any(line.startswith("0     in recv from rank 1 float32[4] for ") for line in lines)
    assert "stack of rank 0, innermost first:" in lines
    assert any(line.endswith(" receives") for line in lines)
    assert len(lines) < 45, "one screen"


# --- without torch ------------------------------------------------------------------------------


def test_a_job_that_is_none_of_torch(tmp_path: Path) -> None:
    status, report, errors = watch(tmp_path, sys.executable, "-c", "print('hello')")
    assert (status, report["verdict"], report["ranks"]) == (0, None, [])
    assert "hello" in errors, "the job's output, for stdout holds one object"


def test_a_job_that_fails_by_itself(tmp_path: Path) -> None:
    status, report, _ = watch(tmp_path, sys.executable, "-c", "raise SystemExit(4)")
    assert (status, report["verdict"]["kind"], report["status"]) == (1, "job", 4)


@pytest.mark.parametrize(
    ("argv", "code", "status"),
    [
        ([], "usage", 2),
        (["--", "no-such-program"], "program_missing", 2),
        (["--", "./plain.txt"], "program_missing", 2),
        (["--report", "full", "--", "true"], "file_exists", 2),
        (["--report", "plain.txt", "--", "true"], "source_unreadable", 2),
        (["--timeout", "0", "--", "true"], "usage", 2),
    ],
)
def test_bad_input_is_refused(argv: list[str], code: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "plain.txt").write_text("text")
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", "run", "--json", *argv],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert json.loads(done.stdout)["error"]["code"] == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_stops_the_command_stops_the_job(number: int, tmp_path: Path) -> None:
    """What the job started is ended too, even where it has a session of its own."""
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
        " start_new_session=True)\nprint('up', flush=True)\ntime.sleep(99)"
    )
    record = tmp_path / "record"
    options = ["--report", str(record), "--json", "--", sys.executable, "-c", code]
    command = subprocess.Popen(
        [sys.executable, "-m", "scaffold", "debug", "run", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr is not None
    assert command.stderr.readline() == "up\n"
    started = _of_job(record)
    assert len(started) == 2
    time.sleep(0.3)
    command.send_signal(number)
    out, _ = command.communicate(timeout=30)
    assert json.loads(out)["debug"]["verdict"]["kind"] == "interrupted"
    assert command.returncode == 1
    assert not psutil.wait_procs(started, timeout=5)[1]


@pytest.mark.parametrize("end", ["raise SystemExit(4)", ""])
def test_a_job_that_ends_by_itself_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
        " start_new_session=True)\n"
        "print(left.pid, file=sys.stderr, flush=True)\n"
    )
    _, _, errors = watch(tmp_path, sys.executable, "-c", code + end)
    assert not psutil.pid_exists(int(errors.splitlines()[0]))


def _of_job(record: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SCAFFOLD_DEBUG_RECORD") == str(record):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_nothing_is_written_in_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "train.py").write_text("import subprocess\n")
    before = _tree(repository)
    for argv in (["run", "--", sys.executable, "train.py"], ["env", "--python", sys.executable]):
        done = subprocess.run(
            [sys.executable, "-m", "scaffold", "debug", *argv],
            cwd=repository,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert _tree(repository) == before


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
