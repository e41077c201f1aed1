"""Do the published hooks work in another repository, through the real pre-commit and real commits?

Offline, the hooks of a copy are `language: system` and find `scaffold` on PATH, as pre-commit would
ask a registry for the dependencies. All else (entry, arguments, stages, what is passed) is as
published. Under the marker `network` the same tests run in the environment that pre-commit makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.clients.kit import copy_tracked, make_repository

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
PUBLISHED: dict[str, dict[str, Any]] = {
    hook["id"]: hook
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}
SKILL = """\
---
name: greet
description: Greets who comes in. Use when somebody comes in.
---

# Greet

Read `docs/greeting.md` first.
"""


class Published(NamedTuple):
    """Is a repository that publishes the hooks, and the environment to use them in."""

    folder: Path
    env: dict[str, str]


def git(folder: Path, *argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Runs git as nobody in particular; whoever calls judges how it ended."""
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    return subprocess.run(
        ["git", *who, *argv], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def environment(tmp: Path, *bins: Path) -> dict[str, str]:
    """Returns an environment in which pre-commit keeps nothing outside of the test's folder."""
    path = os.pathsep.join([*map(str, bins), os.environ["PATH"]])
    return {**os.environ, "PRE_COMMIT_HOME": str(tmp / "cache"), "PATH": path}


@pytest.fixture(scope="module")
def as_system(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Publishes the hooks with `language: system`; `scaffold` on PATH is the one of the tests."""
    tmp = tmp_path_factory.mktemp("system")
    hooks = [{**hook, "language": "system"} for hook in PUBLISHED.values()]
    (tmp / "hooks").mkdir()
    (tmp / "hooks" / ".pre-commit-hooks.yaml").write_text(yaml.safe_dump(hooks), encoding="utf-8")
    (tmp / "bin").mkdir()
    command = tmp / "bin" / "scaffold"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m scaffold "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    env = environment(tmp, tmp / "bin")
    env["PYTHONPATH"] = str(ROOT)
    return Published(make_repository(tmp / "hooks"), env)


@pytest.fixture(scope="module")
def as_published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Publishes a copy of this repository as it stands; pre-commit installs it on first use."""
    tmp = tmp_path_factory.mktemp("published")
    (tmp / "toolkit").mkdir()
    return Published(copy_tracked(ROOT, tmp / "toolkit"), environment(tmp))


@pytest.fixture(params=["as_system", pytest.param("as_published", marks=pytest.mark.network)])
def published(request: pytest.FixtureRequest) -> Published:
    """Gives the hooks in both ways."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def other(published: Published, tmp_path: Path) -> Iterator[Path]:
    """Makes a repository that uses all hooks, with a skill that is true and rendered."""
    folder = tmp_path / "other"
    for path, text in {
        ".agents/skills/greet/SKILL.md": SKILL,
        "docs/greeting.md": "Hello.\n",
        "docs/other.md": "Bye.\n",
        ".pre-commit-config.yaml": yaml.safe_dump(config(published)),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    make_repository(folder)
    sync = [sys.executable, "-m", "scaffold", "skills", "sync"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(sync, cwd=folder, env=env, check=True, capture_output=True)
    argv = ["install", "--hook-type", "pre-commit", "--hook-type", "commit-msg"]
    assert pre_commit(folder, published, *argv).returncode == 0
    git(folder, "add", "-A")
    yield folder
    shutil.rmtree(folder)


def config(published: Published) -> dict[str, Any]:
    """Returns what a repository writes to use the hooks."""
    rev = git(published.folder, "rev-parse", "HEAD").stdout.strip()
    hooks = [{"id": name} for name in PUBLISHED]
    return {"repos": [{"repo": str(published.folder), "rev": rev, "hooks": hooks}]}


def pre_commit(folder: Path, published: Published, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs pre-commit in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *argv],
        cwd=folder,
        env=published.env,
        capture_output=True,
        text=True,
        check=False,
    )


def commits(folder: Path) -> list[str]:
    """Returns the subjects of all commits, the newest first."""
    return git(folder, "log", "--format=%s").stdout.splitlines()


def test_a_commit_that_is_in_order_passes(other: Path, published: Published) -> None:
    done = git(other, "commit", "-m", "feat(skills): greet people", env=published.env)
    assert done.returncode == 0, done.stdout + done.stderr
    for hook in PUBLISHED.values():
        (row,) = [row for row in done.stderr.splitlines() if row.startswith(hook["name"])]
        assert row.endswith("Passed"), done.stderr
    assert commits(other) == ["feat(skills): greet people", "all"]


def test_a_file_that_a_skill_needs_cannot_be_deleted(other: Path, published: Published) -> None:
    (other / "docs" / "greeting.md").unlink()
    git(other, "add", "-A")
    done = git(other, "commit", "-m", "docs: drop the greeting", env=published.env)
    assert done.returncode == 1
    assert ".agents/skills/greet/SKILL.md:8:" in done.stderr
    assert commits(other) == ["all"]


def test_a_rendering_that_is_behind_is_refused_with_the_command_that_mends_it(
    other: Path, published: Published
) -> None:
    skill = other / ".agents" / "skills" / "greet" / "SKILL.md"
    skill.write_text(SKILL + "\nSmile.\n", encoding="utf-8")
    git(other, "add", "-A")
    done = git(other, "commit", "-m", "feat: smile", env=published.env)
    assert done.returncode == 1
    assert ".claude/skills/greet/SKILL.md" in done.stderr
    assert "scaffold skills sync" in done.stderr
    assert commits(other) == ["all"]


def test_a_message_of_another_form_is_refused(other: Path, published: Published) -> None:
    done = git(other, "commit", "-m", "Added the greeting", env=published.env)
    assert done.returncode == 1
    assert "COMMIT_EDITMSG:1:1: " in done.stderr
    assert commits(other) == ["all"]


def test_without_check_the_hook_renders(other: Path, published: Published) -> None:
    settings = config(published)
    for hook in settings["repos"][0]["hooks"]:
        hook |= {"args": []} if hook["id"] == "scaffold-skills-sync" else {}
    (other / ".pre-commit-config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    skill = other / ".agents" / "skills" / "greet" / "SKILL.md"
    skill.write_text(SKILL + "\nSmile.\n", encoding="utf-8")
    git(other, "add", "-A")
    assert pre_commit(other, published, "run", "scaffold-skills-sync").returncode == 1
    rendered = other / ".claude" / "skills" / "greet" / "SKILL.md"
    assert rendered.read_text(encoding="utf-8").endswith("Smile.\n")
    git(other, "add", "-A")
    assert pre_commit(other, published, "run", "scaffold-skills-sync").returncode == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_this_repository_uses_what_it_publishes(name: str) -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hooks = [hook for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"]]
    (ours,) = [hook for hook in hooks if hook["id"] == name]
    same = ("name", "args", "stages", "always_run", "pass_filenames")
    assert {key: ours.get(key) for key in same} == {key: PUBLISHED[name].get(key) for key in same}
    assert ours["entry"] == f".venv/bin/{PUBLISHED[name]['entry']}"
