"""The command as a process: exit statuses, streams, no terminal, and what a path imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reports import REPORTS

ROOT = Path(__file__).parents[2]


def scaffold(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `scaffold` without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "scaffold", *argv],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a project with the real command."""
    folder = tmp_path_factory.mktemp("work")
    done = scaffold("new", "my-rl", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "my_rl"


def test_a_project_names_no_path_of_the_machine_and_its_author_hears_of_one(tmp_path: Path):
    done = scaffold("new", "my-rl", cwd=tmp_path)
    assert f"here: pip install -e {(ROOT / 'areal').as_posix()} -e '.[dev]'" in done.stdout
    written = [path for path in (tmp_path / "my_rl").rglob("*") if path.is_file()]
    assert len(written) > 20
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text, path
        assert str(tmp_path) not in text, path


def test_no_module_of_the_target_is_imported(project: Path):
    for name in ("click.py", "tomllib.py", "sitecustomize.py"):
        (project / name).write_text("raise SystemExit('the target was run')\n")
    done = scaffold("target", "--json", cwd=project)
    for name in ("click.py", "tomllib.py", "sitecustomize.py"):
        (project / name).unlink()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True


def test_json_goes_to_stdout_and_nothing_else(project: Path):
    done = scaffold("add-reward", "sums", "--json", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True
    again = scaffold("add-reward", "sums", "--json", cwd=project)
    assert (again.returncode, json.loads(again.stdout)["changes"]) == (0, [])


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("add-reward", "sums", "--style", "math"), 1),
        (("add-reward", "import"), 2),
        (("add-dataset", "rows"), 2),
        (("add-reward",), 2),
    ],
)
def test_a_refusal_never_waits(project: Path, argv: tuple[str, ...], status: int):
    done = scaffold(*argv, cwd=project)
    assert (done.returncode, done.stdout) == (status, "")
    assert "error: " in done.stderr


def test_a_foreign_folder_is_refused_with_the_lines_to_add(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    done = scaffold("add-reward", "x", cwd=tmp_path)
    assert done.returncode == 1
    assert "[tool.scaffold]" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_a_reader_that_leaves_early_is_no_fault(project: Path):
    script = f"{sys.executable} -m scaffold list | head -c 1"
    done = subprocess.run(
        ["sh", "-c", script], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_with_nothing_to_do_loads_no_heavy_library(project: Path):
    scaffold("add-reward", "sums", cwd=project)
    code = (
        "import sys\nsys.argv = ['scaffold', 'add-reward', 'sums']\n"
        "from scaffold.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'libcst', 'jinja2', 'difflib', 'subprocess', 'tomli_w'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "nothing to do"), done.stderr


@pytest.mark.heavy
def test_an_add_that_verifies_prints_one_object_with_both_outcomes(project: Path):
    done = scaffold("add-reward", "last", "--take", "last_line", "--verify", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    assert (report["verdict"], report["command"]) == ("ok", "add-reward")
    assert report["registered"][0]["key"] == "last"
    yours = scaffold("add-reward", "mine", "--take", "yours", "--verify", "--json", cwd=project)
    report = json.loads(yours.stdout)
    assert (yours.returncode, report["ok"], report["verdict"]) == (1, False, "unfinished")
    assert report["unfinished"][0]["file"] == "my_rl/reward/mine.py"


def test_the_tests_of_a_fresh_project_pass(tmp_path: Path):
    assert scaffold("new", "fresh", cwd=tmp_path).returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "fresh", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
