"""Survey: what git lists, what is looked at without it, and that both are bounded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scaffold.units.init import source_files as survey
from scaffold.units.init.source_files import read_texts, source_files

TEXTS = {
    "a.py": "x",
    "pkg/b.py": "x",
    "build/c.py": "x",
    "node_modules/d/e.py": "x",
    ".venv/lib/f.py": "x",
    ".github/CODEOWNERS": "x",
    "lib.egg-info/g.txt": "x",
    "h.log": "x",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Writes some files."""
    for path, text in TEXTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_without_git_folders_without_sources_are_passed_over(root: Path):
    assert source_files(root) == ([".github/CODEOWNERS", "a.py", "h.log", "pkg/b.py"], True)


def test_with_git_what_it_ignores_is_left_out_and_the_rest_stays_below_the_root(root: Path):
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("*.log\nbuild/\nnode_modules/\n.venv/\n*.egg-info\n")
    subprocess.run(["git", "add", "a.py"], cwd=root, check=True)
    expected = [".github/CODEOWNERS", ".gitignore", "a.py", "pkg/b.py"]
    assert source_files(root) == (expected, True)
    assert source_files(root / "pkg") == (["b.py"], True)


@pytest.mark.parametrize("has_git", [True, False])
def test_no_more_than_so_many_files_are_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch, has_git: bool
):
    if has_git:
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    monkeypatch.setattr(survey, "MAX_FILES", 2 if not has_git else 4)
    found, is_all = source_files(root)
    assert not is_all
    # Python comes before the rest.
    assert found == sorted(found)
    assert {path for path in found if path.endswith(".py")} == set(found)


def test_texts_are_read_and_the_rest_is_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch):
    (root / "binary").write_bytes(b"a\0b")
    (root / "latin").write_bytes(b"\xe9")
    (root / "large").write_text("x" * 50)
    (root / "link").symlink_to(root / "a.py")
    monkeypatch.setattr(survey, "MAX_SIZE_BYTES", 40)
    names = ["a.py", "binary", "latin", "large", "link", "gone", "pkg"]
    assert read_texts(root, names) == ({"a.py": b"x"}, True)
    monkeypatch.setattr(survey, "MAX_TOTAL_BYTES", 1)
    assert read_texts(root, ["a.py", "pkg/b.py"]) == ({"a.py": b"x"}, False)


def test_where_there_is_no_room_for_all_python_and_small_files_come_first(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, size in {"aa.json": 30, "b.md": 3, "c.json": 10, "z.py": 20}.items():
        (root / name).write_text("x" * size)
    monkeypatch.setattr(survey, "MAX_TOTAL_BYTES", 36)
    found, is_all = read_texts(root, ["aa.json", "b.md", "c.json", "z.py"])
    assert (list(found), is_all) == (["b.md", "c.json", "z.py"], False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such programs or pipes")
def test_no_program_of_the_repository_is_run_and_no_pipe_read(root: Path):
    spy = root / "h.log"
    program = root / "program"
    program.write_text(f"#!/bin/sh\necho run >> '{spy}'\n")
    program.chmod(0o755)
    for argv in (
        ["init", "-q"],
        ["config", "core.fsmonitor", str(program)],
        ["config", "core.fsmonitorHookVersion", "1"],
    ):
        subprocess.run(["git", *argv], cwd=root, check=True)
    subprocess.run(["git", "ls-files", "--others"], cwd=root, check=True, capture_output=True)
    assert spy.read_text() != "x", "git runs the program unless it is told not to"
    spy.write_text("x")
    os.mkfifo(root / "pipe.py")
    texts, is_all = read_texts(root, [*source_files(root)[0], "pipe.py"])
    assert spy.read_text() == "x"
    assert is_all
    assert "a.py" in texts
    assert "pipe.py" not in texts
