"""Apply: all or nothing, whatever fails, and at whatever step the process dies."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from scaffold.errors import ApplyError, ConflictError
from scaffold.transaction import disk, state
from scaffold.transaction.apply import apply_changes, create_folder, session, settle
from scaffold.transaction.change import Change
from scaffold.transaction.journal import describe_leftover
from scaffold.transaction.state import find_journal, has_journal, locked, state_folders
from tests.faulty_disk import NO_SPACE, Death, FaultyDisk, die, raising

OLD = b"old \xff\r\n"
BEFORE = {"old.py": OLD, "other.py": b"", "bye/bye/gone.py": b"gone\n", "kept/gone.py": b"gone\n"}
BEFORE |= {"same.sh": b"same\n"}
CHANGES = (
    Change("a/new.py", "created", None, b"new\n"),
    Change("a/deep/er/new.py", "created", None, b"deep\n"),
    Change("old.py", "edited", OLD, b"edited\n"),
    Change("other.py", "edited", b"", b"filled\n"),
    Change("a/run.sh", "created", None, b"#!\n", executable=True),
    Change("same.sh", "updated", b"same\n", b"same\n", executable=True),
    Change("bye/bye/gone.py", "deleted", b"gone\n", None),
    Change("kept/gone.py", "deleted", b"gone\n", None),
    Change(".scaffold/made/reward/x.toml", "record", None, b"x = 1\n"),
)
MORE = (Change("more.py", "created", None, b"more\n"),)

Tree = dict[str, tuple[bytes, int] | None]

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="no fork")


def make_root(folder: Path) -> Path:
    """Makes a folder with a git folder, so that journal and lock are out of the tree."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for path, data in BEFORE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "kept" / "by a person").touch()
    (folder / "old.py").chmod(0o750)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def tree(root: Path) -> Tree:
    """Returns every path outside of .git with its bytes and mode; None for a folder."""
    paths = [path for path in sorted(root.rglob("*")) if ".git" not in path.parts]
    return {str(path.relative_to(root)): _entry(path) for path in paths}


def _entry(path: Path) -> tuple[bytes, int] | None:
    found = path.lstat()
    return None if path.is_dir() else (path.read_bytes(), stat.S_IMODE(found.st_mode))


@pytest.fixture
def expected(tmp_path: Path) -> tuple[Tree, Tree]:
    """Returns the tree before and the tree after, the latter as a run without faults makes it."""
    root = make_root(tmp_path / "expected")
    before = tree(root)
    apply_changes(root, CHANGES, "test", prune=True)
    return before, tree(root)


def steps_of(run: Callable[[], object]) -> list[str]:
    """Returns the steps that a run takes."""
    counter = FaultyDisk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", counter)
        run()
    return counter.steps


def run_with(faulty: FaultyDisk, run: Callable[[], object]) -> BaseException | None:
    """Runs something on a faulty disk, and returns what it raised."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", faulty)
        try:
            run()
        except (ApplyError, Death, KeyboardInterrupt) as error:
            return error
    return None


def apply_to(root: Path, changes: Sequence[Change] = CHANGES) -> Callable[[], object]:
    return lambda: apply_changes(root, changes, "test", prune=True)


def test_writes_every_change(root: Path):
    names = set(tree(root)) - {"bye", "bye/bye", "bye/bye/gone.py", "kept/gone.py"}
    apply_changes(root, CHANGES, "test", prune=True)
    after = tree(root)
    made = {"a", "a/run.sh", "a/deep", "a/deep/er", "a/new.py", "a/deep/er/new.py", ".scaffold"}
    records = {".scaffold/made", ".scaffold/made/reward", ".scaffold/made/reward/x.toml"}
    assert set(after) == names | made | records
    for change in CHANGES:
        entry = after.get(change.path)
        assert change.after == (None if entry is None else entry[0])
    assert after["old.py"] == (b"edited\n", 0o750)
    for path in ("a/run.sh", "same.sh"):
        mode = (after[path] or (b"", 0))[1]
        assert mode & 0o111 == (mode & 0o444) >> 2 != 0
    assert not has_journal(root)


def test_folders_stay_unless_pruning_is_asked_for(root: Path):
    apply_changes(root, CHANGES, "test")
    assert (root / "bye" / "bye").is_dir()


def test_every_kind_of_step_is_one_that_can_fail(root: Path):
    steps = steps_of(apply_to(root))
    assert set(steps) == {
        "create",
        "write",
        "sync",
        "link",
        "replace",
        "mkdir",
        "unlink",
        "rmdir",
        "chmod",
    }


def test_every_write_goes_through_the_disk_that_tests_can_replace(root: Path):
    """Else the exhaustive tests below would not be exhaustive."""
    seen: list[str] = []
    is_on = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_on and event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"):
            seen.append(event)

    state_folders(root)[0].mkdir(parents=True)
    sys.addaudithook(hook)
    steps = steps_of(apply_to(root))
    is_on = False
    counted = {"replace", "unlink", "mkdir", "rmdir", "link"}
    # The first look for the state folder, which stands, is the only one outside.
    assert len(seen) - 1 == len([step for step in steps if step in counted])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failure_at_any_step_puts_everything_back(
    tmp_path: Path, expected: tuple[Tree, Tree], code: int
):
    before, after = expected
    steps = steps_of(apply_to(make_root(tmp_path / "counted")))
    clean_up = len(steps) - steps[::-1].index("replace")  # from here on the run is done
    for at, name in enumerate(steps, 1):
        root = make_root(tmp_path / f"at {at}")
        error = run_with(FaultyDisk(at, raising(code)), apply_to(root))
        left = tree(root)
        assert not has_journal(root), (at, name)
        if at > clean_up or (name == "link" and code == errno.EACCES):  # a copy does as well
            assert error is None, (at, name)
            assert left == after or name == "rmdir", (at, name)
        else:
            assert isinstance(error, ApplyError), (at, name)
            assert (error.code, left) == ("write_failed", before), (at, name)


@pytest.mark.parametrize("fail", [NO_SPACE, raising(errno.EIO)])
def test_a_disk_that_fails_for_good_leaves_a_journal_that_is_settled_later(
    tmp_path: Path, expected: tuple[Tree, Tree], fail: Callable[[], object]
):
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    codes: set[str] = set()
    for at in range(1, count + 1):
        root = make_root(tmp_path / f"at {at}")
        error = run_with(FaultyDisk(at, fail, is_final=True), apply_to(root))
        assert isinstance(error, ApplyError) or at == count, at
        if isinstance(error, ApplyError):
            codes.add(error.code)
        settle(root, "recover")
        assert tree(root) in expected, at
        assert not has_journal(root), at
    assert codes == {"journal_unfinished"}


def test_an_interrupt_at_any_step_leaves_all_or_nothing(
    tmp_path: Path, expected: tuple[Tree, Tree]
):
    def interrupt() -> object:
        raise KeyboardInterrupt

    steps = steps_of(apply_to(make_root(tmp_path / "counted")))
    for at in range(1, len(steps) + 1):
        root = make_root(tmp_path / f"at {at}")
        error = run_with(FaultyDisk(at, interrupt), apply_to(root))
        assert isinstance(error, KeyboardInterrupt), at
        assert tree(root) in expected, at
        assert not has_journal(root), at


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_death_at_any_step_leaves_all_or_nothing(tmp_path: Path, expected: tuple[Tree, Tree]):
    before, after = expected
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    outcomes: list[str] = []
    for at in range(1, count + 1):
        root = make_root(tmp_path / f"at {at}")
        die_at(at, apply_to(root))
        outcomes.append(settle(root, "recover"))
        assert tree(root) == (after if outcomes[-1] == "finished" else before), at
        assert not has_journal(root), at
        assert settle(root, "recover") == ""
    assert set(outcomes) == {"", "undone", "finished"}
    assert outcomes == sorted(outcomes, key=["", "undone", "finished"].index)


def die_at(at: int, run: Callable[[], object]) -> None:
    """Runs something in a child process that kills itself at a step."""
    child = os.fork()
    if child == 0:
        try:
            disk.DISK = FaultyDisk(at, lambda: os.kill(os.getpid(), 9))
            run()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -9


@pytest.mark.parametrize(
    ("stride", "again"), [(7, 3), pytest.param(1, 1, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_death_while_settling_after_a_death_or_a_failure_is_safe(
    tmp_path: Path, expected: tuple[Tree, Tree], stride: int, again: int
):
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    deaths = 0
    for at in range(1, count + 1, stride):
        for second in range(1, count, again):
            root = make_root(tmp_path / f"{at} {second}")
            assert isinstance(run_with(FaultyDisk(at, die, is_final=True), apply_to(root)), Death)
            killer = FaultyDisk(second, die, is_final=True)
            death = run_with(killer, lambda root=root: settle(root, "recover"))
            settle(root, "recover")
            assert tree(root) in expected, (at, second)
            assert not has_journal(root), (at, second)
            deaths += isinstance(death, Death)
            if death is None:
                break  # it took fewer steps
    assert deaths > count // stride


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_death_while_a_failed_run_is_undone_is_safe(
    tmp_path: Path, expected: tuple[Tree, Tree], stride: int
):
    class FailsThenDies(FaultyDisk):
        def _step(self, name: str) -> None:
            self.steps.append(name)
            if len(self.steps) == self.at:
                NO_SPACE()
            if len(self.steps) >= self.at + later:
                die()

    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    phases: set[str] = set()
    for at in range(1, count + 1, stride):
        for later in range(1, count, stride):
            root = make_root(tmp_path / f"{at} {later}")
            if not isinstance(run_with(FailsThenDies(at), apply_to(root)), Death):
                break
            left = describe_leftover(root)
            done = settle(root, "recover")
            assert tree(root) in expected, (at, later)
            if left is not None:
                phases.add(left.phase)
                # What was reported as put back is not finished after all.
                assert (left.phase, done) != ("undoing", "finished"), (at, later)
    assert "undoing" in phases


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "torn"])
def test_a_run_whose_stages_a_power_cut_took_is_undone(
    tmp_path: Path, expected: tuple[Tree, Tree], is_lost: bool
):
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    hit = 0
    for at in range(1, count + 1):
        root = make_root(tmp_path / f"at {at}")
        run_with(FaultyDisk(at, die, is_final=True), apply_to(root))
        left = describe_leftover(root)
        stages = list(root.rglob(".scaffold-*.new"))
        if left is not None and left.phase == "ready" and stages:
            hit += 1
            for stage in stages:
                stage.unlink() if is_lost else stage.write_bytes(b"")
            assert settle(root, "recover") == "undone", at
            assert tree(root) == expected[0], at
    assert hit > 3


def test_the_next_run_settles_first(tmp_path: Path, expected: tuple[Tree, Tree]):
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    wanted = [{**each, "more.py": (b"more\n", 0o644)} for each in expected]
    mask = os.umask(0o022)
    try:
        for at in range(1, count + 1, 4):
            root = make_root(tmp_path / f"at {at}")
            run_with(FaultyDisk(at, die, is_final=True), apply_to(root))
            apply_changes(root, MORE, "test")
            assert tree(root) in wanted, at
    finally:
        os.umask(mask)


PERSON = b"what a person wrote\n"


@pytest.mark.parametrize("path", [change.path for change in CHANGES])
def test_what_a_person_wrote_after_a_death_is_never_lost(tmp_path: Path, path: str):
    count = len(steps_of(apply_to(make_root(tmp_path / "counted"))))
    refused = 0
    for at in range(1, count + 1, 2):
        root = make_root(tmp_path / f"at {at}")
        run_with(FaultyDisk(at, die, is_final=True), apply_to(root))
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(PERSON)
        left = tree(root)
        error = run_with(FaultyDisk(), lambda root=root: settle(root, "recover"))
        assert (root / path).read_bytes() == PERSON, at
        if error is not None:
            refused += 1
            assert isinstance(error, ApplyError)
            assert error.code == "journal_unfinished"
            assert path in error.message
            assert "recover" in error.hint
            assert tree(root) == left, at
            assert settle(root, "recover", keep_edited=True) in ("finished", "undone")
            assert (root / path).read_bytes() == PERSON, at
        assert not has_journal(root), at
        assert not [each for each in tree(root) if "/.scaffold-" in f"/{each}"], at
    assert refused > 2


def test_what_a_person_wrote_decides_nothing_about_the_other_files(root: Path):
    steps = steps_of(apply_to(make_root(root.parent / "counted")))
    in_the_middle = len(steps) - steps[::-1].index("replace") - len(CHANGES) // 2
    run_with(FaultyDisk(in_the_middle, die, is_final=True), apply_to(root))
    (root / "a" / "new.py").write_bytes(PERSON)
    assert settle(root, "recover", keep_edited=True) == "finished"
    left = tree(root)
    assert left["a/new.py"] is not None
    assert left["a/new.py"][0] == PERSON
    assert left["old.py"] == (b"edited\n", 0o750)
    assert "kept/gone.py" not in left


def test_a_file_saved_between_the_last_check_and_its_turn_is_not_overwritten(root: Path):
    class Meddler(FaultyDisk):
        def sync(self, path: Path) -> None:
            super().sync(path)
            (root / "other.py").write_bytes(PERSON)

    wanted = tree(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", Meddler())
        with pytest.raises(ConflictError) as refusal:
            apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "changed_meanwhile"
    left = tree(root)
    assert left.pop("other.py") == (PERSON, 0o644)
    wanted.pop("other.py")
    assert left == wanted
    assert not has_journal(root)


def test_a_file_deleted_between_the_last_check_and_its_turn_stays_deleted(root: Path):
    class Meddler(FaultyDisk):
        def sync(self, path: Path) -> None:
            super().sync(path)
            (root / "kept" / "gone.py").unlink(missing_ok=True)
            if record.parent.is_dir():
                record.write_bytes(PERSON)

    record = root / CHANGES[-1].path
    wanted = tree(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", Meddler())
        with pytest.raises(ConflictError) as refusal:
            apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "changed_meanwhile"
    assert record.read_bytes() == PERSON
    del wanted["kept/gone.py"]
    assert {path: entry for path, entry in tree(root).items() if "scaffold" not in path} == wanted
    assert not has_journal(root)


def test_a_folder_that_became_a_link_after_a_death_is_not_followed(root: Path, tmp_path: Path):
    steps = steps_of(apply_to(make_root(tmp_path / "counted")))
    run_with(FaultyDisk(len(steps) - 12, die, is_final=True), apply_to(root))
    assert has_journal(root)
    outside = tmp_path / "outside"
    (root / "a").rename(outside)
    (root / "a").symlink_to(outside)
    was = tree(outside)
    with pytest.raises(ApplyError, match="leads elsewhere") as refusal:
        settle(root, "recover")
    assert refusal.value.code == "journal_unfinished"
    assert tree(outside) == was


def test_without_links_old_files_are_copied(root: Path, expected: tuple[Tree, Tree]):
    class NoLinks(FaultyDisk):
        def link(self, source: Path, place: Path) -> None:
            raising(errno.ENOTSUP)()

    steps = NoLinks()
    run_with(steps, apply_to(make_root(root.parent / "counted")))
    for at in range(1, len(steps.steps) + 1):
        root = make_root(root.parent / f"at {at}")
        run_with(NoLinks(at, die, is_final=True), apply_to(root))
        settle(root, "recover")
        assert tree(root) in expected, at


@pytest.mark.parametrize(
    ("path", "data"),
    [("old.py", PERSON), ("a/new.py", PERSON), ("other.py", None), ("kept/gone.py", PERSON)],
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


def test_state_is_not_written_through_a_link_out_of_the_root(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / ".scaffold").symlink_to(tmp_path / "outside")
    with pytest.raises(ConflictError) as refusal:
        apply_changes(tmp_path / "root", MORE, "test")
    assert refusal.value.code == "outside_target"
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_inside_the_root_stays_a_link(root: Path):
    (root / "real.py").write_bytes(b"was\n")
    (root / "link.py").symlink_to("real.py")
    apply_changes(root, (Change("link.py", "edited", b"was\n", b"is\n"),), "test")
    assert (root / "link.py").is_symlink()
    assert (root / "real.py").read_bytes() == b"is\n"


def test_one_file_under_two_names_is_refused(root: Path):
    (root / "link.py").symlink_to("old.py")
    left = tree(root)
    changes = [Change(path, "edited", OLD, b"new\n") for path in ("link.py", "old.py")]
    with pytest.raises(ConflictError, match="the same file"):
        apply_changes(root, changes, "test")
    assert tree(root) == left


def test_a_second_writer_waits_and_then_says_who_holds_the_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(state, "LOCK_WAIT_S", 0.05)
    with (
        locked(root, "add-reward x"),
        pytest.raises(ApplyError, match="scaffold add-reward x") as refusal,
    ):
        apply_changes(root, CHANGES, "test")
    assert refusal.value.code == "locked"
    apply_changes(root, CHANGES, "test")


def test_a_session_plans_on_what_it_settled(root: Path, expected: tuple[Tree, Tree]):
    steps = steps_of(apply_to(make_root(root.parent / "counted")))
    run_with(FaultyDisk(len(steps) - 3, die, is_final=True), apply_to(root))
    with session(root, "next") as opened:
        assert opened.settled == "finished"
        assert tree(root) == expected[1]
        opened.apply([Change("old.py", "edited", b"edited\n", b"again\n")])
    assert (root / "old.py").read_bytes() == b"again\n"


def test_an_error_inside_a_session_is_not_called_a_failure_to_write(root: Path):
    with pytest.raises(OSError, match="mine"), session(root, "next"):
        raise OSError("mine")


def test_a_session_can_forget_all_state(tmp_path: Path):
    apply_changes(tmp_path, MORE, "test")
    with session(tmp_path, "uninstall") as opened:
        opened.forget()
    assert [path.name for path in tmp_path.iterdir()] == ["more.py"]


def test_a_new_folder_appears_whole(tmp_path: Path):
    (tmp_path / "new").mkdir()
    create_folder(tmp_path / "new", [("a/b.py", b"b\n"), (".gitignore", b"x\n")])
    left = {path: entry and entry[0] for path, entry in tree(tmp_path / "new").items()}
    assert left == {".gitignore": b"x\n", "a": None, "a/b.py": b"b\n"}
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


FILES = [("a/b.py", b"b\n"), ("c.py", b"c\n")]


def test_a_new_folder_that_fails_or_dies_leaves_nothing_in_the_end(tmp_path: Path):
    (tmp_path / "0").mkdir()
    count = len(steps_of(lambda: create_folder(tmp_path / "0" / "new", FILES)))
    wanted = tree(tmp_path / "0")
    for at in range(1, count + 1):
        for fail, is_final in ((NO_SPACE, False), (die, True)):
            place = tmp_path / f"{at} {is_final}"
            place.mkdir()
            faulty = FaultyDisk(at, fail, is_final=is_final)
            error = run_with(faulty, lambda place=place: create_folder(place / "new", FILES))
            if not is_final:
                assert tree(place) == (wanted if at == count else {}), at
                assert isinstance(error, ApplyError) == (at < count), at
            if not (place / "new").exists():
                create_folder(place / "new", FILES)
            assert tree(place) == wanted, at


def test_two_that_make_the_same_folder_do_not_mix(tmp_path: Path):
    def meddle(path: str) -> bytes:
        with pytest.raises(ApplyError) as refusal:
            create_folder(tmp_path / "new", FILES)
        assert refusal.value.code == "locked"
        return path.encode()

    create_folder(tmp_path / "new", ((path, meddle(path)) for path in ("x", "y")))
    assert sorted(tree(tmp_path)) == ["new", "new/x", "new/y"]


def test_a_journal_is_found_wherever_it_was_left(root: Path):
    """Git's folder may be writable to one user and not to another, or come later."""
    bare = root.parent / "bare"
    bare.mkdir()
    run_with(FaultyDisk(12, die, is_final=True), apply_to(bare, MORE))
    (bare / ".git").mkdir()
    (bare / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    found = find_journal(bare)
    assert found is not None
    assert found[0] == bare / ".scaffold" / "state"
    assert settle(bare, "recover") != ""
    assert not has_journal(bare)


def test_a_file_in_the_place_of_a_folder_is_told_before_anything_is_written(root: Path) -> None:
    (root / "a").write_bytes(b"a person's\n")
    before = tree(root)
    with pytest.raises(ConflictError, match=r"^a is not a folder, and a/new\.py goes there$"):
        apply_changes(root, CHANGES, "add")
    assert tree(root) == before
    assert find_journal(root) is None


def test_a_run_is_undone_where_a_file_took_the_place_of_its_folder(root: Path) -> None:
    assert isinstance(run_with(FaultyDisk(8, die, is_final=True), apply_to(root)), Death)
    assert (root / "a").is_dir()
    shutil.rmtree(root / "a")
    (root / "a").write_bytes(b"a person's\n")
    settle(root, "status", keep_edited=True)
    assert find_journal(root) is None
    assert (root / "a").read_bytes() == b"a person's\n"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_in_a_circle_is_told(root: Path) -> None:
    (root / "a").symlink_to("a")
    with pytest.raises(ConflictError, match=r"leads in a circle|is not a folder"):
        apply_changes(root, CHANGES, "add")
    assert find_journal(root) is None
