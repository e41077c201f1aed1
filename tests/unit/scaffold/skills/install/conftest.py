"""Sources of skills: folders and real git repositories, made for each test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SKILL = "---\nname: {name}\ndescription: Does it.\n---\n\n# Do it\n"

Git = Callable[..., str]


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Writes files below a folder, and returns it."""
    for path, data in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def run_git(folder: Path, *argv: str) -> str:
    """Runs git as a person does, without the configuration of whoever runs the tests."""
    identity = ["-c", "user.name=A Person", "-c", "user.email=person@example.org"]
    done = subprocess.run(
        ["git", *identity, "-c", "protocol.file.allow=always", *argv],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit_all(folder: Path, message: str = "work") -> str:
    """Commits what is in a folder, and returns the commit's id."""
    run_git(folder, "add", "--all", "--force")
    run_git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return run_git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Returns a repository with two skills, one of which brings a script."""
    folder = tmp_path / "source"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    write(
        folder,
        {
            "skills/one/SKILL.md": SKILL.format(name="one"),
            "skills/two/SKILL.md": SKILL.format(name="two"),
            "skills/two/scripts/run.sh": "#!/bin/sh\necho hello\n",
            "README.md": "# Skills\n",
        },
    )
    (folder / "skills/two/scripts/run.sh").chmod(0o755)
    commit_all(folder)
    return folder
