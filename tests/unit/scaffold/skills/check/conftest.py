"""Small repositories with one page of guidance, for the tests of the check."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import Outcome, check_repository

Checked = Callable[..., Outcome]


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    """Return the check of a page ``AGENTS.md`` among other files, committed in steps.

    The files of ``before`` are committed first, and are gone afterwards where the others lack them.
    A submodule is not fetched: git knows its commit, and its folder is empty.
    """

    def check(
        page: str,
        files: dict[str, str],
        before: dict[str, str] | None = None,
        submodule: str = "",
        links: dict[str, str] | None = None,
    ) -> Outcome:
        root = tmp_path / "repository"
        root.mkdir()
        _git(root, "init", "--quiet")
        for day, state in enumerate((before or {}, {**files, "AGENTS.md": page}), 1):
            for path in [each for each in root.rglob("*") if ".git" not in each.parts]:
                if path.is_file():
                    path.unlink()
            for path, text in state.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            for path, target in (links or {}).items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).unlink(missing_ok=True)
                (root / path).symlink_to(target)
            _git(root, "add", "--all")
            _git(root, "commit", "--quiet", "--allow-empty", "--message", "state", day=day)
        if submodule:
            (root / submodule).mkdir(exist_ok=True)
            _git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{submodule}")
            _git(root, "commit", "--quiet", "--message", "submodule")
        return check_repository(Repository.at(root))

    return check


def _git(root: Path, *argv: str, day: int = 3) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    dates = {f"GIT_{each}_DATE": f"2025-01-0{day}T12:00:00Z" for each in ("AUTHOR", "COMMITTER")}
    environment = {**os.environ, **dates}
    subprocess.run(["git", *who, *argv], cwd=root, check=True, capture_output=True, env=environment)


def told(outcome: Outcome) -> list[tuple[str, str, int]]:
    """Return the rule, the class of the reason and the line of every finding."""
    return [(each.rule, each.reason, each.line) for each in outcome.findings]
