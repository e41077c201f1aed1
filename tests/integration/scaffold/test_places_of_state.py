"""Monorepos, worktrees, submodules: state lies where git says, and nothing beside is looked at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaffold.transaction import disk
from scaffold.transaction.apply import apply_changes
from scaffold.transaction.change import Change
from scaffold.transaction.state import has_journal, locked, state_folders
from tests.faulty_disk import Death, FaultyDisk, die

ROOT = Path(__file__).parents[3]
Scaffold = Callable[..., Any]

# Runs a command and prints every path that was listed or opened, and the working folder and the
# arguments of every program that was started.
WATCHED = """
import json, os, sys
seen = []
def hook(event, arguments):
    if event == "subprocess.Popen":
        _, argv, folder, _ = arguments
        for each in (folder or ".", *argv):
            seen.append([event, os.path.join(folder or os.getcwd(), os.fsdecode(each))])
    elif event in ("os.listdir", "os.scandir", "open"):
        if isinstance(arguments[0], (str, bytes, os.PathLike)):
            seen.append([event, os.path.abspath(os.fsdecode(arguments[0]))])
sys.addaudithook(hook)
from scaffold.cli.main import main
try:
    main()
finally:
    print(json.dumps(seen), file=sys.stderr)
"""


def git(folder: Path, *argv: str) -> str:
    """Runs git as nobody in particular, and returns what it prints."""
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    who += ["-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *argv], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def copy_project(project: Path, folder: Path) -> Path:
    """Copies a project without the state that its making left."""
    shutil.copytree(project, folder)
    shutil.rmtree(folder / ".scaffold" / "state", ignore_errors=True)
    return folder


@pytest.fixture
def repository(project: Path, tmp_path: Path) -> Path:
    """Makes a git repository whose root is a project, with one commit."""
    root = copy_project(project, tmp_path / "main")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


class DiesInTheMiddle(FaultyDisk):
    """Lets the process end when the second of four files is in place."""

    def replace(self, source: Path, place: Path) -> None:
        super().replace(source, place)
        if place.name == "b.txt":
            self.at, self.fail, self.is_final = len(self.steps), die, True
            die()


def interrupt(root: Path) -> None:
    """Leaves a run that died in the middle of its renames."""
    changes = [Change(f"{name}.txt", "created", None, b"x\n") for name in "abcd"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", DiesInTheMiddle())
        with pytest.raises(Death):
            apply_changes(root, changes, "add-reward x")
    assert (root / "b.txt").exists()
    assert not (root / "c.txt").exists()


def check_state(scaffold: Scaffold, root: Path, folder: Path) -> None:
    """Checks a whole life of a target whose state is to lie in a folder that git named."""
    assert state_folders(root)[0].resolve() == folder.resolve()
    assert scaffold(root, "add-reward", "first").status == 0
    assert (folder / "lock").is_file()
    interrupt(root)
    assert (folder / "journal-ready.json").is_file()
    was = sorted(folder.iterdir())
    for reading in (["status"], ["add-reward", "second", "--dry-run"], ["recover", "--dry-run"]):
        done = scaffold(root, *reading, "--json")
        assert "interrupted" in " ".join(done.report["warnings"]), reading
        assert sorted(folder.iterdir()) == was
        assert not (root / "d.txt").exists()
    done = scaffold(root, "recover", "--json")
    assert done.report["recovered"] == "finished"
    assert (root / "d.txt").read_bytes() == b"x\n"
    assert not has_journal(root)
    assert not (root / ".scaffold" / "state").exists()
    for name in "abcd":
        (root / f"{name}.txt").unlink()
    untracked = git(root, "status", "--porcelain", "-uall", ".")
    assert "areal-scaffold" not in untracked
    assert "lock" not in untracked


def git_path(root: Path) -> Path:
    """Returns what git itself says of our folder."""
    return root / git(root, "rev-parse", "--git-path", "areal-scaffold")


def test_a_repository(repository: Path, scaffold: Scaffold):
    check_state(scaffold, repository, git_path(repository) / "root")


def test_a_target_below_the_root_of_git(project: Path, tmp_path: Path, scaffold: Scaffold):
    inner = copy_project(project, tmp_path / "mono" / "packages" / "rl")
    git(tmp_path / "mono", "init", "-q")
    check_state(scaffold, inner, git_path(inner) / "root%2Fpackages%2Frl")


def test_a_linked_worktree(repository: Path, tmp_path: Path, scaffold: Scaffold):
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    tree = tmp_path / "tree"
    with locked(repository, "in the main tree"):  # another working tree, another lock
        check_state(scaffold, tree, git_path(tree) / "root")
    interrupt(tree)
    assert not has_journal(repository)


@pytest.mark.slow
def test_a_submodule(repository: Path, tmp_path: Path, scaffold: Scaffold):
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "submodule", "--quiet", "add", str(repository), "libs/rl")
    module = outer / "libs" / "rl"
    assert (module / ".git").is_file()
    check_state(scaffold, module, git_path(module) / "root")


@pytest.mark.slow
def test_a_git_folder_elsewhere(project: Path, tmp_path: Path, scaffold: Scaffold):
    root = copy_project(project, tmp_path / "tree")
    git(root, "init", "-q", "--separate-git-dir", str(tmp_path / "elsewhere.git"))
    check_state(scaffold, root, tmp_path / "elsewhere.git" / "areal-scaffold" / "root")


@pytest.mark.skipif(sys.platform == "win32", reason="no links without privileges")
def test_a_target_with_linked_folders(repository: Path, scaffold: Scaffold):
    """A folder of the target that is a link into the target is written through, and stays one."""
    (repository / "tests").rename(repository / "real_tests")
    (repository / "tests").symlink_to("real_tests")
    assert scaffold(repository, "add-reward", "first").status == 0
    assert (repository / "tests").is_symlink()
    assert (repository / "real_tests" / "reward" / "test_first.py").is_file()
    assert scaffold(repository, "remove", "first").status == 0
    assert not (repository / "real_tests" / "reward").exists()


ADD, REMOVE = ["add-reward", "first"], ["remove", "first"]
OTHERS = [ADD, ["status"], ["list"], ["show", "first"], ["update"], ["recover"]]


@pytest.mark.parametrize(
    ("count", "between"),
    [(2_000, []), pytest.param(200_000, OTHERS, marks=pytest.mark.slow)],
    ids=["small", "large"],
)
def test_nothing_beside_a_target_in_a_large_repository_is_looked_at(
    project: Path, tmp_path: Path, count: int, between: list[list[str]]
):
    repository = tmp_path / "mono"
    root = copy_project(project, repository / "packages" / "rl")
    git(repository, "init", "-q")
    for number in range(0, count, 1000):
        folder = repository / "src" / str(number)
        folder.mkdir(parents=True)
        for file in range(min(1000, count - number)):
            (folder / f"{file}.py").touch()
    for argv in (ADD, *between, REMOVE):
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, *argv],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stderr.splitlines()[-1])
        assert len(seen) > 50
        for event, what in seen:
            place = Path(os.path.normpath(what))
            if event == "subprocess.Popen":  # a program that is given no folder can walk none
                assert not (place.is_dir() and place.is_relative_to(repository)), (argv, what)
            elif place.is_relative_to(repository):
                inside = (root, repository / ".git")
                allowed = any(place.is_relative_to(each) for each in inside)
                # The working folder and what is above it may be asked for their own settings.
                is_setting = event == "open" and root.is_relative_to(place.parent)
                assert allowed or is_setting, (argv, event, what)
