"""A disk that is really full, and folders that really cannot be written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scaffold.errors import ScaffoldError
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change
from scaffold.transaction.state import has_journal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and mounts")

NOBODY = 65534
OLD = b"old\n" * 2000
CHANGES = (
    Change("a/b/new.py", "created", None, b"new\n" * 2000),
    Change("old.py", "edited", OLD, OLD + b"line\n"),
    Change("gone.py", "deleted", b"gone\n", None),
    Change(".scaffold/made/x.toml", "record", None, b"x = 1\n" * 1000),
)


def make_root(root: Path) -> None:
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "old.py").write_bytes(OLD)
    (root / "gone.py").write_bytes(b"gone\n")


def tree(root: Path) -> dict[str, bytes | None]:
    """Returns every path outside of .git with its bytes; None for a folder."""
    paths = [path for path in sorted(root.rglob("*")) if ".git" not in path.parts]
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_bytes() for p in paths}


def apply_here(root: Path) -> str:
    """Applies the changes and returns the code of the refusal, or ""."""
    try:
        apply_changes(root, CHANGES, "test", prune=True)
    except ScaffoldError as error:
        return error.code
    return ""


# Runs as the main program of a process that has a mount table of its own.
def fill_a_disk(place: Path) -> None:
    """Applies the changes on a small disk that has one page more free each time."""
    codes: list[str] = []
    for free in range(18):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(place)], check=True)
        root = place / "root"
        make_root(root)
        pages = os.statvfs(place).f_bavail
        (place / "ballast").write_bytes(bytes(4096 * (pages - free)))
        before = tree(root)
        codes.append(apply_here(root))
        assert not has_journal(root), free
        assert (tree(root) == before) == (codes[-1] != ""), free
        (place / "ballast").unlink()
        assert settle(root, "recover") == ""
        if codes[-1]:
            assert apply_here(root) == ""
        assert (root / "a/b/new.py").read_bytes() == CHANGES[0].after
        assert not (root / "gone.py").exists()
        subprocess.run(["umount", str(place)], check=True)
    assert set(codes) == {"write_failed", ""}
    assert codes == sorted(codes, reverse=True), codes
    print(*[code or "written" for code in codes])


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs in a namespace of its own")
def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path):
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*inside, "mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)],
            check=False,
            capture_output=True,
        ).returncode
    ):
        pytest.skip("this kernel lets no user mount a file system of their own")
    done = subprocess.run(
        [*inside, sys.executable, __file__, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr
    assert "write_failed" in done.stdout
    assert "written" in done.stdout


@pytest.fixture
def root() -> Iterator[Path]:
    """Makes a target that belongs to nobody: permissions do not bind the superuser."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_root(folder / "root")
        if os.getuid() == 0:
            folder.chmod(0o755)
            for path in (folder / "root", *(folder / "root").rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield folder / "root"


def as_nobody(run: Callable[[], str]) -> str:
    """Runs something without privileges, in a child process, and returns what it says."""
    if os.getuid() != 0:
        return run()
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(sink, run().encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def lock_up(root: Path, path: str, mode: int) -> None:
    (root / path).chmod(mode)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("path", "mode", "code"),
    [
        ("", 0o555, "write_failed"),
        ("old.py", 0o444, "write_failed"),
        ("gone.py", 0o444, "write_failed"),
        ("old.py", 0o000, "changed_meanwhile"),
        (".git", 0o555, ""),
        (".git", 0o000, ""),
        (".git/HEAD", 0o000, ""),
        ("old.py", 0o600, ""),
    ],
)
def test_missing_permission_leaves_everything_as_it_was(
    root: Path, path: str, mode: int, code: str
):
    before = tree(root)
    was = stat.S_IMODE((root / path).stat().st_mode)
    lock_up(root, path, mode)
    assert as_nobody(lambda: apply_here(root)) == code
    if path and not code and not path.startswith(".git"):
        assert stat.S_IMODE((root / path).stat().st_mode) == mode
    lock_up(root, path, was)
    left = tree(root)
    assert not has_journal(root)
    if code:
        assert left == before
        assert as_nobody(lambda: apply_here(root)) == ""
    else:
        assert left["old.py"] == CHANGES[1].after


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_folder_that_cannot_be_written_late_in_the_run(root: Path):
    """The first files are written already when the folder of the last one turns out to be shut."""
    (root / ".scaffold" / "made").mkdir(parents=True)
    for path in (root / ".scaffold", root / ".scaffold" / "made"):
        path.chmod(0o555)
    before = tree(root)
    if os.getuid() == 0:
        assert as_nobody(lambda: apply_here(root)) == "write_failed"
    else:
        assert apply_here(root) == "write_failed"
    assert tree(root) == before
    assert not has_journal(root)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_without_a_place_for_state_nothing_is_written(root: Path):
    (root / ".scaffold").mkdir()
    (root / ".scaffold").chmod(0o555)
    (root / ".git").chmod(0o555)
    before = tree(root)
    assert as_nobody(lambda: apply_here(root)) == "write_failed"
    assert tree(root) == before


def add_here(root: Path) -> str:
    """Adds a reward with the real command, and returns the code of its refusal, or ""."""
    from scaffold.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main(["add-reward", "first", "--json", "--target", str(root)])
    return (json.loads(said.getvalue())["error"] or {"code": ""})["code"]


@pytest.fixture(scope="module")
def warm(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the project, when all is imported that nobody may have no right to read."""
    scratch = tmp_path_factory.mktemp("warm") / "my_rl"
    shutil.copytree(project, scratch)
    assert add_here(scratch) == ""
    return project


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("path", "mode", "code"),
    [
        ("my_rl/reward/__init__.py", 0o000, "registry_missing"),
        ("my_rl/reward/__init__.py", 0o444, "write_failed"),
        ("my_rl/reward", 0o555, "write_failed"),
        ("tests", 0o555, "write_failed"),
        (".scaffold/made", 0o555, "write_failed"),
        ("my_rl/reward/__init__.py", 0o640, ""),
    ],
)
def test_a_command_without_permission_says_so_and_changes_nothing(
    warm: Path, path: str, mode: int, code: str
):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "my_rl"
        shutil.copytree(warm, root)
        if os.getuid() == 0:
            root.parent.chmod(0o755)
            for each in (root, *root.rglob("*")):
                os.chown(each, NOBODY, NOBODY)
        before = without_state(root)
        was = stat.S_IMODE((root / path).stat().st_mode)
        lock_up(root, path, mode)
        said = as_nobody(lambda: add_here(root))
        lock_up(root, path, was)
        assert said == code
        assert (without_state(root) == before) == (code != "")
        assert not has_journal(root)


def without_state(root: Path) -> dict[str, bytes | None]:
    return {path: data for path, data in tree(root).items() if ".scaffold/state" not in path}


if __name__ == "__main__":
    fill_a_disk(Path(sys.argv[1]))
