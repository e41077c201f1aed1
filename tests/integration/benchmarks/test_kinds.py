"""The check of learned kinds counts what a reader expected, what is missed, what is left."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from benchmarks import kinds
from benchmarks.kinds import Expected, read_expected
from benchmarks.settings import QUICK

pytestmark = pytest.mark.heavy

KEYS = ("one", "two", "tri")
FILES = {
    "pyproject.toml": "[project]\nname = 'lib'\nversion = '1'\n",
    "lib/__init__.py": "",
    "lib/things/__init__.py": "".join(f"from .{k} import {k.capitalize()}Thing\n" for k in KEYS),
    "ci.json": '[\n"test one",\n"test two",\n"test tri"\n]\n',
    **{f"lib/things/{k}.py": f"class {k.capitalize()}Thing:\n    x = 1\n" for k in KEYS},
}


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    """Makes the clone of a repository, and returns what a reader finds in it."""
    clone = tmp_path / "corpus" / "own+lib"
    for path, text in FILES.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text)
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*kinds.GIT, *argv], cwd=clone, check=True)
    argv = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(argv, cwd=clone, capture_output=True, text=True, check=True)
    return Expected(
        "own/lib", head.stdout.strip(), "lib/things/one.py", "fourth one",
        files=("lib/things/one.py",), lines={"lib/things/__init__.py": 1}, by_hand=("ci.json",),
    )  # fmt: skip


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *rows: Expected
) -> dict[str, kinds.Result]:
    def read(path: Path) -> tuple[Expected, ...]:
        return rows

    monkeypatch.setattr(kinds, "read_expected", read)
    found = kinds.run(dataclasses.replace(QUICK, corpus=tmp_path / "corpus"))
    return {row.key: row for row in found}


def test_what_a_reader_expects_is_found_and_what_he_does_not_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Expected
) -> None:
    found = run(tmp_path, monkeypatch, expected)
    assert {key: row.verdict for key, row in found.items() if key != "kinds.one"} == {
        f"kinds.{each}": "pass" for each in ("found", "wrong", "clean", "sound")
    }
    assert found["kinds.one"].note == "3 of 3"
    other = dataclasses.replace(expected, files=("lib/no.py",), by_hand=(), either=("ci.json",))
    found = run(tmp_path, monkeypatch, other)
    assert found["kinds.one"].note == (
        "1 of 2; missed: file lib/no.py; not expected: file lib/things/one.py"
    )
    assert (found["kinds.wrong"].ours, found["kinds.wrong"].verdict) == (1, "FALLS SHORT")


def test_what_a_removal_leaves_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Expected
) -> None:
    scaffold = kinds.run_scaffold

    def keeps(root: Path, *args: str) -> dict[str, object]:
        return {} if args[0] == "remove" else scaffold(root, *args)

    monkeypatch.setattr(kinds, "run_scaffold", keeps)
    found = run(tmp_path, monkeypatch, expected)
    assert found["kinds.clean"].verdict == "FALLS SHORT"
    assert "git status is not clean" in found["kinds.one"].note


def test_a_repository_that_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Expected
) -> None:
    gone = dataclasses.replace(expected, repository="own/gone")
    old = dataclasses.replace(expected, commit="1" * 40)
    (row,) = run(tmp_path, monkeypatch, gone, old).values()
    assert (row.key, row.ours) == ("kinds.left_out", 2)
    assert "own/gone (no clone)" in row.note


def test_the_written_facts_are_complete() -> None:
    rows = read_expected(kinds.EXPECTED)
    assert len({row.repository for row in rows}) == len(rows) >= 10
    assert all(len(row.commit) == 40 and row.files for row in rows)
