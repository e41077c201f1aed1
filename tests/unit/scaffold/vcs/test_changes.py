"""What changed, read from real repositories: every status of git, odd names and odd contents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaffold.vcs.changes import (
    EMPTY_TREE,
    LINK,
    FileChange,
    Hunk,
    changes_between,
    new_text,
    old_text,
    staged_changes,
    unstaged_changes,
)
from scaffold.vcs.repository import Repository, open_repository
from tests.integration.scaffold.git_places import commit, git, make_repository

LONG = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Makes a repository with one commit."""
    made = make_repository(tmp_path / "r")
    commit(made, "feat: begin", {"a.txt": "one\ntwo\nthree\n", "long.txt": LONG, "bin": b"\0\1"})
    return made


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    """Opens it."""
    opened = open_repository(folder)
    yield opened
    opened.close()


def of_head(repository: Repository) -> tuple[FileChange, ...]:
    """Returns what the newest commit changed."""
    first = repository.commit_of("HEAD^1") or EMPTY_TREE
    return changes_between(repository, first, "HEAD")


def test_a_hunk_has_its_lines_and_their_numbers(folder: Path, repository: Repository) -> None:
    commit(folder, "fix: it", {"a.txt": "one\n2\nthree\nfour"})
    (change,) = of_head(repository)
    assert (change.status, change.path, change.is_binary) == ("M", "a.txt", False)
    assert change.hunks == (
        Hunk(2, ("two",), 2, ("2",)),
        Hunk(3, (), 4, ("four",)),
    )
    assert (change.added_count, change.removed_count) == (2, 1)
    assert old_text(repository, change) == "one\ntwo\nthree\n"
    assert new_text(repository, change) == "one\n2\nthree\nfour"


def test_a_rename_a_copy_and_a_deletion(folder: Path, repository: Repository) -> None:
    (folder / "moved").mkdir()
    git(folder, "mv", "long.txt", "moved/long.txt")
    commit(folder, "refactor: move", {"moved/long.txt": LONG + "more\n", "a.txt": None})
    gone, moved = sorted(of_head(repository), key=lambda change: change.status)
    assert (gone.status, gone.new_path, gone.path) == ("D", None, "a.txt")
    assert (moved.status, moved.old_path, moved.new_path) == ("R", "long.txt", "moved/long.txt")
    assert moved.similarity is not None
    assert 50 < moved.similarity < 100
    assert moved.hunks[0].added == ("more",)


def test_a_file_that_becomes_a_link_and_back(folder: Path, repository: Repository) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("long.txt")
    commit(folder, "refactor: link", {})
    (change,) = of_head(repository)
    assert (change.status, change.new_mode) == ("T", LINK)
    assert old_text(repository, change) == "one\ntwo\nthree\n"
    assert new_text(repository, change) is None
    commit(folder, "refactor: unlink", {"b": "x"})
    (folder / "a.txt").unlink()
    commit(folder, "refactor: write it again", {"a.txt": "again\n", "b": "y\n"})
    back, other = of_head(repository)
    assert (back.status, back.old_mode) == ("T", LINK)
    # The two parts of a change of type do not shift those of the files behind it.
    assert other.hunks[0].added == ("y",)


def test_modes_binaries_and_submodules(
    folder: Path, repository: Repository, tmp_path: Path
) -> None:
    inner = make_repository(tmp_path / "inner")
    commit(inner, "feat: inner", {"x": "x"})
    git(folder, "submodule", "add", "-q", str(inner), "sub", GIT_ALLOW_PROTOCOL="file")
    (folder / "a.txt").chmod(0o755)
    commit(folder, "feat: many", {"bin": b"\0\2", "z.txt": "z\n"})
    found = {change.path: change for change in of_head(repository)}
    assert (found["a.txt"].old_mode, found["a.txt"].new_mode) == ("100644", "100755")
    assert found["a.txt"].hunks == ()
    assert found["bin"].is_binary
    assert new_text(repository, found["bin"]) is None
    assert found["sub"].is_submodule
    assert (found["sub"].hunks, new_text(repository, found["sub"])) == ((), None)
    assert found["z.txt"].hunks[0].added == ("z",)


NAMES = ["with space.txt", "new\nline.txt", "t\tab.txt", 'quo"te.txt', "\u00e4\u4e2d.txt", "-dash"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_as_they_are(name: str, folder: Path, repository: Repository) -> None:
    commit(folder, "feat: odd", {name: "x\n"})
    (change,) = of_head(repository)
    assert change.path == name
    assert new_text(repository, change) == "x\n"


def test_a_name_that_is_no_utf_8_is_kept(folder: Path, repository: Repository) -> None:
    name = b"b\xe9.txt".decode("utf-8", "surrogateescape")
    commit(folder, "feat: odd", {name: "x\n"})
    assert [change.path for change in of_head(repository)] == [name]


def test_contents_that_are_no_utf_8_are_shown_as_well_as_can_be(
    folder: Path, repository: Repository
) -> None:
    commit(folder, "feat: odd", {"l.txt": b"caf\xe9\r\n@@ -1 +1 @@\n diff --git a b\n"})
    (change,) = of_head(repository)
    assert change.hunks[0].added == ("caf\ufffd", "@@ -1 +1 @@", " diff --git a b")


def test_lines_that_look_like_a_patch_divide_nothing(folder: Path, repository: Repository) -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n"
    commit(folder, "feat: keep a patch", {"p.diff": patch, "z.txt": "z\n"})
    first, last = of_head(repository)
    assert first.hunks[0].added == tuple(patch.splitlines())
    assert last.hunks[0].added == ("z",)


def test_a_merge_is_what_it_brought_to_its_first_parent(
    folder: Path, repository: Repository
) -> None:
    git(folder, "switch", "-q", "-c", "side")
    commit(folder, "feat: side", {"side.txt": "s\n"})
    git(folder, "switch", "-q", "main")
    commit(folder, "feat: main", {"main.txt": "m\n"})
    git(folder, "merge", "-q", "--no-edit", "side")
    assert [change.path for change in of_head(repository)] == ["side.txt"]


def test_the_first_commit_adds_all(repository: Repository) -> None:
    assert {change.status for change in of_head(repository)} == {"A"}


def test_what_is_staged_before_the_first_commit(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "new")
    (folder / "x").write_text("x")
    git(folder, "add", "x")
    opened = open_repository(folder)
    assert [(each.path, each.status) for each in staged_changes(opened)] == [("x", "A")]
    opened.close()


def test_staged_and_unstaged_are_told_apart(folder: Path, repository: Repository) -> None:
    (folder / "a.txt").write_text("staged\n")
    git(folder, "add", "a.txt")
    (folder / "long.txt").write_text("not staged\n")
    git(folder, "checkout", "-q", "--detach")
    assert [change.path for change in staged_changes(repository)] == ["a.txt"]
    assert [change.path for change in unstaged_changes(repository)] == ["long.txt"]


def test_files_in_conflict_do_not_shift_the_others(folder: Path, repository: Repository) -> None:
    git(folder, "switch", "-q", "-c", "side")
    commit(folder, "feat: side", {"a.txt": "side\n", "z.txt": "z\n"})
    git(folder, "switch", "-q", "main")
    commit(folder, "feat: main", {"a.txt": "main\n"})
    git(folder, "merge", "-q", "side", ok=False)
    found = {(change.path, change.status): change for change in staged_changes(repository)}
    assert ("a.txt", "U") in found
    assert found["z.txt", "A"].hunks[0].added == ("z",)
    (folder / "z.txt").write_text("zz\n")
    on_disk = {change.path: change for change in unstaged_changes(repository)}
    assert (on_disk["a.txt"].status, on_disk["a.txt"].new_mode) == ("U", "100644")
    assert on_disk["z.txt"].hunks[0].added == ("zz",)


def test_programs_that_a_repository_names_are_not_run(folder: Path, repository: Repository) -> None:
    (folder / ".gitattributes").write_text("*.txt diff=own\n")
    for key in ("diff.external", "diff.own.command", "diff.own.textconv", "core.fsmonitor"):
        git(folder, "config", key, f"touch {folder}/ran; cat")
    (folder / "a.txt").write_text("x\n")
    assert [change.path for change in unstaged_changes(repository)] == ["a.txt"]
    assert not (folder / "ran").exists()
