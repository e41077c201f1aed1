"""Are the skills around commits and pull requests followed to their end, word by word?

The repository that they tell of is made here, with fixed names and dates, so that the names of
commits are the promised ones. The remote is a local one, and gh a stand-in.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_skills import (
    FOLDER,
    SECTIONS,
    console_blocks,
    everything_said,
    table_under,
)
from tests.integration.scaffold.git_places import ENV, commit, git, make_gh, make_repository

DATE = "2026-01-02T03:04:05+00:00"
FIXED = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
_GIVEN = re.compile(r"^Below, this is `([^`\n]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_TIME = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
TIME = "20260102T030405.000000Z"
NAMES = ("commit-conventions", "create-pr")


def text_of(name: str) -> str:
    """Returns a skill."""
    return (FOLDER / name / "SKILL.md").read_text(encoding="utf-8")


def make_history(folder: Path) -> Path:
    """Makes the repository that the skills tell of: a package, its tests, its pages."""
    make_repository(folder)
    begin = {"stats/core/sums.py": "def total(rows):\n    return 0\n", "README.md": "# stats\n"}
    commit(folder, "chore: begin", begin, **FIXED)
    for number in range(8):
        name = f"part{number}"
        new = f"def {name}(rows):\n    return {number}\n"
        files = {f"stats/core/{name}.py": new, f"stats/tests/test_{name}.py": f"# {name}\n"}
        commit(folder, f"feat(core): add {name}", files, **FIXED)
        fixed = new.replace("return ", "return 1 + ")
        commit(
            folder, f"fix(core): let {name} count from 1", {f"stats/core/{name}.py": fixed}, **FIXED
        )
        commit(folder, f"docs(guide): tell of {name}", {"docs/guide.md": f"{name}\n"}, **FIXED)
    return folder


def follow(name: str, folder: Path, env: dict[str, str]) -> list[tuple[list[str], str, str]]:
    """Runs every console block of a skill; returns each command, its output and the promised."""
    rows: list[tuple[list[str], str, str]] = []
    text = text_of(name)
    for path, content in _GIVEN.findall(text):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    for command, promised in console_blocks(text):
        argv = [sys.executable, "-m", *command] if command[0] == "scaffold" else command
        done = subprocess.run(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        rows.append((command, _TIME.sub(TIME, done.stdout), "\n".join(promised)))
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_the_sections_stand_in_their_order(name: str) -> None:
    text = _FENCED.sub("", text_of(name))
    assert tuple(re.findall(r"^## (.+)$", text, flags=re.MULTILINE)) == SECTIONS


def test_who_follows_commit_conventions_has_committed(tmp_path: Path) -> None:
    folder = make_history(tmp_path / "stats")
    git(folder, "switch", "-q", "-c", "12-add-mean")
    for command, printed, promised in follow("commit-conventions", folder, {**ENV, **FIXED}):
        assert printed.rstrip("\n") == promised, command
    assert git(folder, "log", "-1", "--format=%s") == "feat(core): add the arithmetic mean"
    assert git(folder, "status", "--porcelain") == "?? message.txt"


def test_who_follows_create_pr_has_opened_one(tmp_path: Path) -> None:
    folder = make_history(tmp_path / "stats")
    git(tmp_path, "clone", "-q", "--bare", str(folder), "bare.git")
    git(folder, "remote", "add", "origin", str(tmp_path / "bare.git"))
    git(folder, "fetch", "-q")
    git(folder, "switch", "-q", "-c", "12-add-mean")
    mean = {"stats/core/mean.py": "def mean(rows):\n    return sum(rows) / len(rows)\n"}
    commit(folder, "feat(core): add the arithmetic mean", mean, **FIXED)
    commit(folder, "more tests", {"stats/tests/test_mean.py": "# mean\n"}, **FIXED)
    (folder / ".git" / "info" / "exclude").write_text("body.md\nmessage.txt\n")
    bins = make_gh(tmp_path / "bin")
    path = os.pathsep.join([str(bins), os.environ["PATH"]])
    for command, printed, promised in follow("create-pr", folder, {**ENV, **FIXED, "PATH": path}):
        assert printed.rstrip("\n") == promised, command
    assert git(tmp_path / "bare.git", "rev-parse", "12-add-mean") == git(
        folder, "rev-parse", "HEAD"
    )
    assert git(folder, "rev-list", "--count", "origin/main..HEAD") == "1"


@pytest.mark.parametrize("name", NAMES)
def test_the_mistakes_are_those_that_somebody_is_told(name: str) -> None:
    phrases = [row[0] for row in table_under(text_of(name), "Common mistakes")]
    assert len(phrases) > 5
    sources = everything_said()
    for phrase in phrases:
        for part in phrase.split("..."):
            assert part.strip() in sources, f"nothing ever says {phrase!r}"
