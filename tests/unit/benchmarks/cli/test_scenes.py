"""Runs that are measured: what they took, in which order, and what is said of a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cli.scenes import Scene, Stage, Usage, cpu_median, describe
from benchmarks.processes import ProcessError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="os.wait4 is not there")

BURN = "import time\nwhile time.process_time() < {}: pass"


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_time_of_children_counts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    child = f"import subprocess; subprocess.run({python(BURN.format(0.2))!r}, check=True)"
    assert stage.run(python(child), tmp_path).cpu_s > 0.2
    assert stage.run(python("pass"), tmp_path).cpu_s < 0.15


def test_the_memory_is_the_commands_own(tmp_path: Path) -> None:
    ours = b"x" * 60_000_000  # what this process holds is not a part of what the command takes
    stage = Stage(tmp_path)
    assert stage.run(python("pass"), tmp_path).peak_mb < 40
    assert stage.run(python("b'x' * 60_000_000"), tmp_path).peak_mb > 57
    assert len(ours) == 60_000_000


def test_a_failure_says_what_the_command_wrote(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with pytest.raises(ProcessError, match="the reason"):
        stage.run(python("raise SystemExit('the reason')"), tmp_path)
    with pytest.raises(ProcessError, match="no_such_program"):
        stage.run(["no_such_program"], tmp_path)


def test_rounds_alternate_and_the_first_does_not_count(tmp_path: Path) -> None:
    order: list[str] = []

    def scene(name: str) -> Scene:
        return Scene(
            lambda i: python("pass"), tmp_path, prepare=lambda i: order.append(f"{name}{i}")
        )

    found = Stage(tmp_path).measure({name: scene(name) for name in "ab"}, rounds=2)
    assert order == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert {name: len(runs) for name, runs in found.items()} == {"a": 2, "b": 2}


def test_a_home_folder_and_bytecode_are_the_stages_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module_of_mine.py").write_text("")
    code = "import sys; sys.path.insert(0, '.'); import module_of_mine, pathlib; "
    code += "(pathlib.Path.home() / 'was_here').touch()"
    place = tmp_path / "stage"
    place.mkdir()
    Stage(place).run(python(code), tmp_path)
    assert (place / "home" / "was_here").exists()
    assert list((place / "bytecode").rglob("module_of_mine.*.pyc"))


def test_a_note_holds_median_least_and_memory() -> None:
    runs = [Usage(0.03, 10.0), Usage(0.05, 12.0), Usage(0.04, 11.0)]
    assert cpu_median(runs) == 0.04
    assert describe(runs, [Usage(0.01, 8.0), Usage(0.02, 8.0)]) == (
        "40.0 ms CPU, least 30.0 ms (3.00x the least of pass), 3 runs, peak 12 MB"
    )
