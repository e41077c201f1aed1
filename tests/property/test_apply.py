"""Apply, for any tree, any changes and any moments of failure and death: all or nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.errors import ApplyError, ScaffoldError
from scaffold.transaction import disk
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change
from scaffold.transaction.state import has_journal
from tests.faulty_disk import NO_SPACE, Death, FaultyDisk, die

# Few names, so that files share folders and folders hold one another.
FOLDERS = st.sampled_from(["", "a/", "a/b/", "a/b/c/", "d/", "é ü/"])
PATHS = st.builds(lambda folder, name: folder + name, FOLDERS, st.sampled_from("xyz"))
CONTENTS = st.binary(max_size=40)
TREES = st.dictionaries(PATHS, CONTENTS, max_size=8)
STEPS = st.integers(1, 120)
Tree = dict[str, bytes | None]


@st.composite
def plans(draw: st.DrawFn) -> tuple[dict[str, bytes], list[Change]]:
    """Draws a tree, and changes that fit it: new files, edited files, deleted files."""
    files = draw(TREES)
    wanted = draw(st.dictionaries(PATHS, st.none() | CONTENTS, min_size=1, max_size=8))
    changes = [
        Change(path, "changed", files.get(path), data)
        for path, data in wanted.items()
        if files.get(path) != data
    ]
    return files, changes


@contextmanager
def made(files: dict[str, bytes]) -> Iterator[Path]:
    """Makes a tree, with a folder of git beside it for the state."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "root"
        (root / ".git").mkdir(parents=True)
        (root / ".git" / "HEAD").touch()
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        yield root


def tree(root: Path) -> Tree:
    paths = [path for path in root.rglob("*") if ".git" not in path.parts]
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_bytes() for p in paths}


def wanted(files: dict[str, bytes], changes: list[Change]) -> Tree:
    """Returns the tree that the changes come to, worked out without the disk."""
    after: dict[str, bytes] = {**files}
    for change in changes:
        after.pop(change.path, None)
        if change.after is not None:
            after[change.path] = change.after
    folders = [str(above) for path in after for above in Path(path).parents[:-1]]
    return {**dict.fromkeys(folders), **after}


def run(root: Path, changes: list[Change], faulty: FaultyDisk) -> BaseException | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", faulty)
        try:
            apply_changes(root, changes, "test", prune=True)
        except (ScaffoldError, Death) as error:
            return error
    return None


@given(plans())
def test_the_tree_is_what_the_changes_say(plan: tuple[dict[str, bytes], list[Change]]):
    files, changes = plan
    with made(files) as root:
        apply_changes(root, changes, "test", prune=True)
        assert tree(root) == wanted(files, changes)
        back = [Change(c.path, "back", c.after, c.before) for c in changes]
        apply_changes(root, back, "test", prune=True)
        assert tree(root) == wanted(files, [])
        assert not has_journal(root)


@given(plans(), STEPS)
def test_a_failure_changes_nothing(plan: tuple[dict[str, bytes], list[Change]], at: int):
    files, changes = plan
    with made(files) as root:
        error = run(root, changes, FaultyDisk(at, NO_SPACE))
        assert error is None or isinstance(error, ApplyError)
        left = tree(root)
        if error is None:
            # A folder whose removal failed stays, empty.
            folders = {path for path, data in left.items() if data is None}
            assert {p: d for p, d in left.items() if p not in folders} == {
                p: d for p, d in wanted(files, changes).items() if d is not None
            }
        else:
            assert left == wanted(files, [])
        assert not has_journal(root)


@given(plans(), STEPS, STEPS, st.booleans())
def test_deaths_leave_all_or_nothing(
    plan: tuple[dict[str, bytes], list[Change]], at: int, again: int, is_next: bool
):
    files, changes = plan
    with made(files) as root:
        allowed = [wanted(files, []), wanted(files, changes)]
        run(root, changes, FaultyDisk(at, die, is_final=True))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "DISK", FaultyDisk(again, die, is_final=True))
            with suppress(Death):
                settle(root, "recover")
        if is_next:
            more = Change("more", "created", None, b"more")
            apply_changes(root, [more], "test")
            allowed = [{**each, "more": b"more"} for each in allowed]
        else:
            settle(root, "recover")
        assert tree(root) in allowed
        assert not has_journal(root)


@given(plans(), STEPS, TREES)
def test_what_is_written_after_a_death_is_never_lost(
    plan: tuple[dict[str, bytes], list[Change]], at: int, person: dict[str, bytes]
):
    files, changes = plan
    with made(files) as root:
        run(root, changes, FaultyDisk(at, die, is_final=True))
        known = {data for change in changes for data in (change.before, change.after)}
        saved: dict[str, bytes] = {}
        for path, data in person.items():
            place = root / path
            if data in known:  # no edit: the file is as the journal knows it
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            saved[path] = data
        with suppress(ApplyError):
            settle(root, "recover")
        settle(root, "recover", keep_edited=True)
        assert {path: (root / path).read_bytes() for path in saved} == saved
        untouched = {c.path for c in changes} | set(saved)
        for path in set(files) - untouched:
            assert (root / path).read_bytes() == files[path]
        assert not has_journal(root)
        assert not [name for name in tree(root) if ".scaffold-" in name]
