"""The benchmark of given types, on histories whose customs are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.commits import run
from benchmarks.settings import QUICK
from tests.integration.scaffold.git_places import commit, make_repository


def history(folder: Path, count: int) -> Path:
    """Make a repository in which the role of a file decides, but for every fourth source."""
    make_repository(folder)
    commit(folder, "chore: begin", {"x": "0"})
    for number in range(count):
        word = "feat" if number % 4 == 0 else "fix"
        commit(folder, f"{word}(core): mend", {"pkg/core/a.py": f"A = {number}\n"})
        commit(folder, "docs(guide): describe", {"docs/a.md": f"{number}\n"})
    return folder


def test_a_type_is_given_where_the_history_agrees_and_is_the_author_s(tmp_path: Path) -> None:
    (row,) = run(dataclasses.replace(QUICK, repo=history(tmp_path / "r", 20)))
    assert row.ours == pytest.approx(1.0)
    # Pages alone, from the thirteenth on, and the one without a history.
    assert row.note == "given for 9 of 40 commits"
    assert row.verdict == "pass"


def test_a_history_that_teaches_nothing_is_not_measured(tmp_path: Path) -> None:
    free = make_repository(tmp_path / "free")
    (row,) = run(dataclasses.replace(QUICK, repo=free))
    assert (row.ours, row.verdict) == (None, "not measured")
    for number in range(3):
        commit(free, "did things", {"x": str(number)})
    (row,) = run(dataclasses.replace(QUICK, repo=free))
    assert row.note == "too few Conventional Commits"
