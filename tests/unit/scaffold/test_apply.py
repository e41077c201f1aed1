"""Apply: all or nothing, whatever fails, and at whatever moment the process dies."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scaffold import apply, journal
from scaffold.apply import apply_changes, create_folder, settle
from scaffold.journal import has_journal, locked, read_journal, state_folder
from scaffold.plan import Change
from scaffold.spec import ApplyError, ConflictError

OLD = b"old \xff\r\n"
CHANGES = (
    Change("a/new.py", "created", None, b"new\n"),
    Change("a/deep/er/new.py", "created", None, b"deep\n"),
    Change("old.py", "edited", OLD, b"edited\n"),
    Change("other.py", "edited", b"", b"filled\n"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Makes a folder with a git folder, so that journal and lock are out of the tree."""
    folder = tmp_path / "root"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "old.py").write_bytes(OLD)
    (folder / "other.py").write_bytes(b"")
    return folder


def tree(root: Path) -> dict[str, bytes | None]:
    """Returns every path outside of .git with its bytes; None for a folder."""
    paths = [path for path in sorted(root.rglob("*")) if ".git" not in path.parts]
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_bytes() for p in paths}


def after(before: dict[str, bytes | None]) -> dict[str, bytes | None]:
    folders = {"a": None, "a/deep": None, "a/deep/er": None}
    return {**before, **folders, **{change.path: change.after for change in CHANGES}}


def test_writes_every_change(root: Path):
    expected = after(tree(root))
    apply_changes(root, CHANGES, "test")
    assert tree(root) == expected
    assert not has_journal(root)


def test_keeps_the_mode_of_an_edited_file(root: Path):
    (root / "old.py").chmod(0o750)
    apply_changes(root, CHANGES, "test")
    assert stat.S_IMODE((root / "old.py").stat().st_mode) == 0o750


class Breaker:
    """Lets a function fail at one of its calls."""

    def __init__(
        self, function: Callable[..., object], at: int, fail: Callable[[], object]
    ) -> None:
        self.function, self.left, self.fail = function, at, fail

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.left -= 1
        if self.left == 0:
            self.fail()
        return self.function(*args, **kwargs)


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt() -> None:
    raise KeyboardInterrupt


# The number of calls that one run makes of each; the test below would notice another. The first
# mkdir is that of the state folder, which the tests make beforehand.
CALLS = {"replace": 6, "fsync": 16, "mkdir": 4}
POINTS = [(name, at) for name, calls in CALLS.items() for at in range(1, calls + 1)]
POINTS.remove(("mkdir", 1))


def break_at(name: str, at: int, fail: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, name, Breaker(getattr(os, name), at, fail))


def test_the_points_of_failure_are_all_of_them(root: Path, monkeypatch: pytest.MonkeyPatch):
    state_folder(root).mkdir(parents=True)
    counters = {name: Breaker(getattr(os, name), -1, no_space) for name in CALLS}
    for name, counter in counters.items():
        monkeypatch.setattr(os, name, counter)
    apply_changes(root, CHANGES, "test")
    assert {name: -1 - counter.left for name, counter in counters.items()} == CALLS


@pytest.mark.parametrize(("name", "at"), POINTS)
def test_a_failure_at_any_point_puts_everything_back(
    root: Path, name: str, at: int, monkeypatch: pytest.MonkeyPatch
):
    state_folder(root).mkdir(parents=True)
    before = tree(root)
    with monkeypatch.context() as patch:
        break_at(name, at, no_space, patch)
        with pytest.raises(ApplyError, match="No space left") as refusal:
            apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "write_failed"
    assert tree(root) == before
    assert not has_journal(root)
    apply_changes(root, CHANGES, "test")
    assert tree(root) == after(before)


@pytest.mark.parametrize(("name", "at"), POINTS[::3])
def test_an_interrupt_at_any_point_puts_everything_back(
    root: Path, name: str, at: int, monkeypatch: pytest.MonkeyPatch
):
    state_folder(root).mkdir(parents=True)
    before = tree(root)
    with monkeypatch.context() as patch:
        break_at(name, at, interrupt, patch)
        with pytest.raises(KeyboardInterrupt):
            apply_changes(root, CHANGES, "test")
    assert tree(root) == before


def die_at(root: Path, name: str, at: int) -> None:
    """Runs the changes in a child process that is gone at once at the given call."""
    child = os.fork()
    if child == 0:
        try:
            setattr(os, name, Breaker(getattr(os, name), at, lambda: os._exit(9)))
            apply_changes(root, CHANGES, "test")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize(("name", "at"), [*POINTS, *(("unlink", at) for at in range(1, 9))])
def test_death_at_any_point_leaves_all_or_nothing(root: Path, name: str, at: int):
    state_folder(root).mkdir(parents=True)
    before = tree(root)
    die_at(root, name, at)
    done = settle(root, "recover")
    assert tree(root) in (before, after(before))
    assert (tree(root) == before) == (done != "finished")
    assert not has_journal(root)
    assert settle(root, "recover") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_what_was_changed_after_a_death_is_not_touched(root: Path):
    state_folder(root).mkdir(parents=True)
    die_at(root, "replace", 4)
    (root / "old.py").write_bytes(b"mine\n")
    left = tree(root)
    with pytest.raises(ApplyError, match=r"old\.py was changed since") as refusal:
        settle(root, "recover")
    assert refusal.value.code == "journal_unfinished"
    assert tree(root) == left


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_the_next_run_settles_first(root: Path):
    state_folder(root).mkdir(parents=True)
    expected = after(tree(root))
    die_at(root, "replace", 4)
    apply_changes(root, (Change("more.py", "created", None, b"more\n"),), "test")
    assert tree(root) == {**expected, "more.py": b"more\n"}


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 1, "steps": [1]}'])
def test_a_journal_that_cannot_be_read_stops_the_run(root: Path, content: str):
    path = state_folder(root) / "journal.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(ApplyError) as refusal:
        apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "journal_unfinished"


def test_a_newer_journal_asks_for_an_upgrade(root: Path):
    path = state_folder(root) / "journal.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 2}))
    with pytest.raises(ApplyError) as refusal:
        read_journal(path)
    assert refusal.value.code == "target_newer"


@pytest.mark.parametrize(
    ("path", "data"), [("old.py", b"changed\n"), ("a/new.py", b"there\n"), ("other.py", None)]
)
def test_a_file_that_changed_since_the_plan_stops_the_run(
    root: Path, path: str, data: bytes | None
):
    (root / path).parent.mkdir(exist_ok=True)
    if data is None:
        (root / path).unlink()
    else:
        (root / path).write_bytes(data)
    left = tree(root)
    with pytest.raises(ConflictError) as refusal:
        apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "changed_meanwhile"
    assert tree(root) == left


def test_nothing_is_written_through_a_link_out_of_the_root(root: Path, tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (root / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(ConflictError) as refusal:
        apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "outside_target"
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_inside_the_root_stays_a_link(root: Path):
    (root / "real.py").write_bytes(b"was\n")
    (root / "link.py").symlink_to("real.py")
    apply_changes(root, (Change("link.py", "edited", b"was\n", b"is\n"),), "test")
    assert (root / "link.py").is_symlink()
    assert (root / "real.py").read_bytes() == b"is\n"


def test_a_second_writer_waits_and_then_says_who_holds_the_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "LOCK_WAIT_S", 0.05)
    with (
        locked(state_folder(root), "add-reward x"),
        pytest.raises(ApplyError, match="scaffold add-reward x") as refusal,
    ):
        apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "locked"
    apply_changes(root, CHANGES, "test")


def test_state_lives_in_the_folder_of_git(root: Path, tmp_path: Path):
    assert state_folder(root) == root / ".git" / "areal-scaffold" / "root"
    inner = root / "packages" / "a"
    inner.mkdir(parents=True)
    assert state_folder(inner) == root / ".git" / "areal-scaffold" / "packages-a"
    worktree = tmp_path / "tree"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {root / '.git'}\n")
    assert state_folder(worktree) == root / ".git" / "areal-scaffold" / "root"
    (inner / ".git").write_text("gitdir: ../../.git\n")
    assert state_folder(inner).resolve() == root / ".git" / "areal-scaffold" / "root"


def test_without_git_state_lives_beside_the_ledger_and_is_ignored(tmp_path: Path):
    apply_changes(tmp_path, (Change("a.py", "created", None, b"a\n"),), "test")
    assert state_folder(tmp_path) == tmp_path / ".scaffold" / "state"
    assert (tmp_path / ".scaffold" / "state" / ".gitignore").read_text() == "*\n"


def test_a_new_folder_appears_whole(tmp_path: Path):
    (tmp_path / "new").mkdir()
    create_folder(tmp_path / "new", [("a/b.py", b"b\n"), (".gitignore", b"x\n")])
    assert tree(tmp_path / "new") == {".gitignore": b"x\n", "a": None, "a/b.py": b"b\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize(("name", "at"), [("fsync", 1), ("fsync", 3), ("mkdir", 1), ("rename", 1)])
def test_a_new_folder_that_fails_leaves_nothing(
    tmp_path: Path, name: str, at: int, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        break_at(name, at, no_space, patch)
        with pytest.raises(ApplyError):
            apply.create_folder(tmp_path / "new", [("a/b.py", b"b\n"), ("c.py", b"c\n")])
    assert list(tmp_path.iterdir()) == []
