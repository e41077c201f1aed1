"""State: one place per target, whatever git looks like there, and one lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaffold.errors import ApplyError
from scaffold.transaction import state
from scaffold.transaction.state import is_locked, locked, state_folders


def git_folder(folder: Path) -> Path:
    """Makes the least that is a git folder."""
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def test_state_lives_in_the_folder_of_git(tmp_path: Path):
    git = git_folder(tmp_path / ".git")
    assert state_folders(tmp_path)[0] == git / "areal-scaffold" / "root"
    assert state_folders(tmp_path / "a" / "b")[0] == git / "areal-scaffold" / "root%2Fa%2Fb"


INSIDE = ["", "a-b", "a/b", "a%2Fb", "a%252Fb", "root", "root/root", "a", "A" * 99, "x/" * 150]


def test_every_place_in_a_repository_has_its_own_state(tmp_path: Path):
    git_folder(tmp_path / ".git")
    names = [state_folders(tmp_path / inside)[0].name for inside in INSIDE]
    assert len(set(names)) == len(INSIDE)
    assert all(len(os.fsencode(name)) < 256 for name in names)


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_worktree_or_a_submodule_has_state_of_its_own(tmp_path: Path, is_relative: bool):
    git_folder(tmp_path / "main" / ".git")
    inner = git_folder(tmp_path / "main" / ".git" / "worktrees" / "tree")
    tree = tmp_path / "tree"
    tree.mkdir()
    where = os.path.relpath(inner, tree) if is_relative else str(inner)
    (tree / ".git").write_text(f"gitdir: {where}\n")
    found = state_folders(tree)[0]
    assert found.resolve() == inner / "areal-scaffold" / "root"


@pytest.mark.parametrize("kind", ["empty folder", "text", "nowhere", "loop", "not utf-8"])
def test_what_is_no_git_folder_is_passed_over(tmp_path: Path, kind: str):
    git = tmp_path / ".git"
    match kind:
        case "empty folder":
            git.mkdir()
        case "text":
            git.write_text("not what git writes\n")
        case "nowhere":
            git.write_text("gitdir: ../nowhere\n")
        case "loop":
            git.symlink_to(git)
        case _:
            git.write_bytes(b"gitdir: \xff\n")
    assert state_folders(tmp_path) == (tmp_path / ".scaffold" / "state",)


def test_without_git_state_lives_beside_the_ledger_and_is_ignored(tmp_path: Path):
    with locked(tmp_path, "test") as place:
        assert place == tmp_path / ".scaffold" / "state"
        assert (place / ".gitignore").read_text() == "*\n"
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_the_lock_of_a_target_that_was_forgotten_meanwhile_keeps_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who waited for a lock file that its holder removed must not hold the removed one."""
    opened = state._open_locks

    def forgotten(root: Path, handles: list[int]) -> Path:
        place = opened(root, handles)
        monkeypatch.setattr(state, "_open_locks", opened)
        (place / "lock").unlink()
        return place

    monkeypatch.setattr(state, "_open_locks", forgotten)
    monkeypatch.setattr(state, "LOCK_WAIT_S", 0.05)
    with (
        locked(tmp_path, "first"),
        pytest.raises(ApplyError, match="scaffold first"),
        locked(tmp_path, "second"),
    ):
        pass
