"""The recorder that is brought into ranks, in processes of its own and without torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
BROUGHT = RUNNERS / "rank_recorder" / "startup"


def run(
    folder: Path, code: str, path: str = "", **env: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, list[dict[str, object]]]]:
    """Runs code with the recorder in it and returns what was recorded, file by file."""
    record = folder / "record"
    record.mkdir(exist_ok=True)
    paths = os.pathsep.join(filter(None, [str(BROUGHT), path]))
    given = {"PYTHONPATH": paths, "SCAFFOLD_DEBUG_RECORD": str(record), **env}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **given},
        capture_output=True,
        text=True,
    )
    files = sorted(record.glob("*.jsonl"))
    rows = {
        file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files
    }
    return done, rows


def test_the_program_runs_as_without_it(tmp_path: Path) -> None:
    code = (
        "import sys; print(sys.argv, 'rank_recorder' in sys.path[0]);"
        f"print([p for p in sys.path if p.startswith({str(RUNNERS)!r})]); sys.exit(3)"
    )
    done, rows = run(tmp_path, code)
    assert done.stdout == "['-c'] False\n[]\n"
    assert (done.returncode, done.stderr) == (3, "")
    assert rows == {}, "no rank, no record"


def test_who_is_ended_by_sigterm_says_where_it_was(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        "ready, begun = os.pipe()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.write(begun, b'.')\n"
        "    time.sleep(60)\n"
        "os.read(ready, 1)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "ended = os.waitpid(child, 0)[1]\n"
        "print(os.WTERMSIG(ended), os.getpid(), flush=True)\n"
        "def training():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
        "training()\n"
    )
    done, _ = run(tmp_path, code, RANK="0")
    of_child, pid = done.stdout.split()
    assert (int(of_child), done.returncode) == (15, -15)
    written = (tmp_path / "record" / f"{pid}.end.txt").read_text()
    assert written.count("(most recent call first)") == 1, "nothing of its child"
    assert "in training" in written


@pytest.mark.skipif(sys.platform != "linux", reason="on_exit is glibc's")
def test_asking_an_ending_rank_for_its_stacks_does_not_kill_it(tmp_path: Path) -> None:
    # libc hands the status, which is the signal here, to `raise` once the interpreter is gone.
    code = (
        "import ctypes, os, signal, sys\n"
        "pid = os.fork()\n"
        "libc, asked = ctypes.CDLL(None), signal.SIGRTMIN + 11\n"
        "from rank_recorder import record\n"
        "record.current()\n"
        "signal.raise_signal(asked)\n"
        "libc.on_exit(libc['raise'], None)\n"
        "if pid: print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) - asked)\n"
        "sys.exit(asked)"
    )
    done, rows = run(tmp_path, code, path=str(BROUGHT), RANK="0")
    assert (done.returncode, done.stdout) == (signal.SIGRTMIN + 11, "0\n")
    stacks = [each.read_text() for each in (tmp_path / "record").glob("*.stacks.txt")]
    assert [text.count("(most recent call first)") for text in stacks] == [1, 1]
    assert len(rows) == 2


def test_the_sitecustomize_behind_it_runs_too(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('mine', __file__)\n")
    done, _ = run(tmp_path, "import sitecustomize", str(tmp_path / "own"))
    assert done.stdout == f"mine {tmp_path / 'own' / 'sitecustomize.py'}\n"


def test_a_rank_is_recorded_with_its_exception(tmp_path: Path) -> None:
    done, rows = run(tmp_path, "def f():\n    raise ValueError('no')\nf()", RANK="1")
    assert done.stderr.endswith("ValueError: no\n"), "the program's own traceback"
    ((_, (process, failure, end)),) = rows.items()
    assert process["env"] == {"RANK": "1"}
    assert (failure["type"], failure["message"]) == ("ValueError", "no")
    assert failure["frames"][-1][1:] == [2, "f"]  # type: ignore[index]
    assert end["kind"] == "end"


def test_the_status_of_a_child_is_recorded_by_its_parent(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import os; os._exit(7)']).wait()\n"
        "subprocess.run(['true'])"
    )
    _, rows = run(tmp_path, code, RANK="0")
    told = [row for file in rows.values() for row in file if row["kind"] == "child"]
    assert [row["status"] for row in told] == [7], "of processes with a record alone"


def test_a_fork_makes_no_claim_to_its_parents_record(tmp_path: Path) -> None:
    code = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)"
    _, rows = run(tmp_path, code, RANK="0")
    assert len(rows) == 1
    ((process, end),) = rows.values()
    assert (process["kind"], end["kind"]) == ("process", "end")


@pytest.mark.skipif(sys.platform == "win32", reason="jobs are watched on Linux and macOS alone")
def test_a_program_that_closes_every_file_keeps_its_own(tmp_path: Path) -> None:
    code = (
        "import os, resource\n"
        "os.closerange(3, {})\n"
        "with open('own.txt', 'wb') as own, open('more.txt', 'wb') as more:\n"
        "    from subprocess import run\n"
        "    own.write(b'mine')\n"
        "    raise ValueError('no')"
    )
    for most in ("256", "resource.getrlimit(resource.RLIMIT_NOFILE)[0]"):
        _, rows = run(tmp_path, code.format(most), RANK="0")
        files = [(tmp_path / name).read_bytes() for name in ("own.txt", "more.txt")]
        assert files == [b"mine", b""]
        kinds = [[row["kind"] for row in file] for file in rows.values()]
        assert kinds[-1] == ["process", "exception", "end"]


@pytest.mark.skipif(sys.platform == "win32", reason="jobs are watched on Linux and macOS alone")
def test_a_forked_child_that_returns_came_to_its_end(tmp_path: Path) -> None:
    code = (
        "import multiprocessing\n"
        "from rank_recorder import record\n"
        "child = multiprocessing.get_context('fork').Process(target=record.current)\n"
        "child.start(); child.join()"
    )
    _, rows = run(tmp_path, code, path=str(BROUGHT))
    assert [row["kind"] for file in rows.values() for row in file] == ["process", "end"]


def test_a_record_stays_small(tmp_path: Path) -> None:
    code = (
        "import os, sys\nsys.path.insert(0, os.environ['PYTHONPATH'])\n"
        "from rank_recorder import record\nrecord.SEGMENT_BYTES = 500\n"
        "for i in range(100): record.current().call({'e': '+', 'i': i})"
    )
    _, rows = run(tmp_path, code, RANK="0")
    segments = [file for name, file in rows.items() if ".calls." in name]
    assert len(segments) == 2
    kept = sorted(row["i"] for file in segments for row in file)  # type: ignore[type-var]
    assert kept[-1] == 99
    assert len(kept) < 50
    assert kept == list(range(kept[0], 100)), "the last ones, and no gap"  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", ["nowhere", ""])
def test_without_a_folder_nothing_is_recorded(tmp_path: Path, broken: str) -> None:
    done, rows = run(tmp_path, "print(1)", SCAFFOLD_DEBUG_RECORD=broken, RANK="0")
    assert (done.stdout, done.stderr, rows) == ("1\n", "", {})


def test_where_the_record_cannot_be_written_the_program_goes_on(tmp_path: Path) -> None:
    record = tmp_path / "file"
    record.mkdir()
    code = (
        "import os, sys\nsys.path.insert(0, os.environ['PYTHONPATH'])\n"
        "from rank_recorder import record\nimport shutil\n"
        "shutil.rmtree(os.environ['SCAFFOLD_DEBUG_RECORD'])\n"
        "record.fault('here', 'why')\nprint('on')"
    )
    done, _ = run(tmp_path, code, SCAFFOLD_DEBUG_RECORD=str(record))
    assert done.stdout == "on\n", done.stderr


def test_a_patched_module_keeps_its_loader_and_source(tmp_path: Path) -> None:
    code = (
        "import inspect, subprocess\n"
        "source = inspect.getsource(subprocess)\n"
        "print(type(subprocess.__loader__).__name__, 'class Popen' in source)\n"
        "print(inspect.signature(subprocess.Popen.wait))"
    )
    done, _ = run(tmp_path, code)
    assert done.stdout == "SourceFileLoader True\n(self, timeout=None)\n", done.stderr
