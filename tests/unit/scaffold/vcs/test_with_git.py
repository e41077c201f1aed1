"""The check as git's own hook: what git writes by itself passes, in every way of committing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def git(
    folder: Path, *argv: str, editor: str = "true", ok: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs git with the settings of nobody; an editor is a shell command that gets the file."""
    who = {"NAME": "nobody", "EMAIL": "nobody@example.org"}
    env = {
        **os.environ,
        **{f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_EDITOR": editor,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        ["git", *argv], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done


def write(folder: Path, text: str) -> None:
    """Changes the file of the repository, and stages it."""
    (folder / "file").write_text(text, encoding="utf-8")
    git(folder, "add", "-A")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Makes a repository with the hook, and with one commit on each of two branches."""
    git(tmp_path, "init", "-q", "-b", "main")
    hook = tmp_path / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    command = f'"{sys.executable}" -m scaffold commit-msg --check'
    hook.write_text(f'#!/bin/sh\nexec {command} "$1"\n', encoding="utf-8")
    hook.chmod(0o755)
    write(tmp_path, "one\n")
    git(tmp_path, "commit", "-m", "feat: add a file")
    git(tmp_path, "checkout", "-q", "-b", "side")
    (tmp_path / "beside").write_text("x\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "feat: add another")
    git(tmp_path, "checkout", "-q", "main")
    return tmp_path


def subject(folder: Path) -> str:
    """Returns the first line of the newest commit."""
    return git(folder, "log", "-1", "--format=%s").stdout.strip()


def test_a_merge_passes(repository: Path) -> None:
    git(repository, "merge", "--no-ff", "--no-edit", "side")
    assert subject(repository) == "Merge branch 'side'"


def test_a_revert_and_its_revert_pass(repository: Path) -> None:
    git(repository, "revert", "--no-edit", "HEAD")
    assert subject(repository) == 'Revert "feat: add a file"'
    git(repository, "revert", "--no-edit", "HEAD")
    assert subject(repository).startswith(("Revert", "Reapply"))


def test_a_fixup_and_its_autosquash_pass(repository: Path) -> None:
    write(repository, "two\n")
    git(repository, "commit", "--fixup", "HEAD")
    assert subject(repository) == "fixup! feat: add a file"
    write(repository, "three\n")
    git(repository, "commit", "--squash", "HEAD~1")
    git(repository, "rebase", "-i", "--autosquash", "--root")
    assert subject(repository) == "feat: add a file"


@pytest.mark.parametrize("mark", ["#", ";", "auto"])
def test_comments_and_the_diff_below_the_scissors_do_not_count(repository: Path, mark: str) -> None:
    git(repository, "config", "core.commentChar", mark)
    write(repository, "x" * 200 + "\n")
    put = """sh -c 'printf "fix: mend it\\n%s\\n" "$(cat "$1")" > "$1"' --"""
    git(repository, "commit", "-v", editor=put)
    assert subject(repository) == "fix: mend it"


def test_a_message_that_is_refused_can_be_mended(repository: Path) -> None:
    write(repository, "two\n")
    refused = git(repository, "commit", "-m", "Fixed it", ok=False)
    assert "COMMIT_EDITMSG:1:1: " in refused.stderr + refused.stdout
    assert "git commit --edit --file=.git/COMMIT_EDITMSG" in refused.stderr + refused.stdout
    mend = "sed -i.bak 's/Fixed it/fix: mend it/'"
    git(repository, "commit", "--edit", "--file=.git/COMMIT_EDITMSG", editor=mend)
    assert subject(repository) == "fix: mend it"


def test_in_a_work_tree_of_its_own_the_message_is_found(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "tree", "side")
    tree = repository / "tree"
    write(tree, "two\n")
    refused = git(tree, "commit", "-m", "Fixed it", ok=False)
    assert "COMMIT_EDITMSG:1:1: " in refused.stderr + refused.stdout
    git(tree, "commit", "-m", "fix: mend it")
