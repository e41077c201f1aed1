"""The benchmark of inferred types and scopes, on histories whose habits are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.commits import run
from benchmarks.settings import QUICK
from tests.integration.scaffold.git_places import commit, make_repository


def history(folder: Path, count: int) -> Path:
    """Makes a repository in which the folder decides, and the first words are the most frequent."""
    make_repository(folder)
    commit(folder, "chore: begin", {"x": "0"})
    for number in range(count):
        commit(folder, "fix(core): mend", {"pkg/core/a.py": f"A = {number}\n"})
        commit(folder, "fix(core): mend more", {"pkg/core/b.py": f"B = {number}\n"})
        commit(folder, "docs(guide): tell", {"docs/a.md": f"{number}\n"})
    return folder


def test_clear_habits_are_found_and_beat_the_most_frequent_word(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, repo=history(tmp_path / "r", 12))
    type_, scope, both = run(settings)
    assert type_.ours == scope.ours == both.ours == pytest.approx(1.0)
    assert type_.reference == pytest.approx(10 / 16)
    assert type_.verdict == "pass"
    assert type_.note == "fix 10/10, docs 6/6"


def test_a_history_that_teaches_nothing_is_not_measured(tmp_path: Path) -> None:
    free = make_repository(tmp_path / "free")
    (row,) = run(dataclasses.replace(QUICK, repo=free))
    assert (row.ours, row.verdict) == (None, "not measured")
    for number in range(3):
        commit(free, "did things", {"x": str(number)})
    (row,) = run(dataclasses.replace(QUICK, repo=free))
    assert row.note == "too few subjects are Conventional Commits"
