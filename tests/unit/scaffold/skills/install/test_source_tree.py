"""A skill read from a folder: no path of it leads elsewhere, whatever is there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scaffold.errors import ScaffoldError
from scaffold.skills.install import source_tree as tree
from scaffold.skills.install.source_tree import Entry, Tree, read_skill, tree_of_folder
from tests.unit.scaffold.skills.install.conftest import write

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return write(tmp_path / "x", {"SKILL.md": "text", "scripts/run.sh": "#!/bin/sh\n"})


def listed(*paths: str, size_bytes: int = 1) -> Tree:
    """Returns a tree with files of these paths, as git can hold them on every system."""
    entries = {path: Entry("file", False, size_bytes, path) for path in paths}
    return Tree(entries, lambda keys: dict.fromkeys(keys, b"x"))


def refusal(source: Tree) -> ScaffoldError:
    with pytest.raises(ScaffoldError) as caught:
        read_skill(source, "")
    return caught.value


def test_files_with_their_run_bits(skill: Path) -> None:
    (skill / "scripts/run.sh").chmod(0o755)
    write(skill, {".DS_Store": b"x", "__pycache__/a.pyc": b"x", "scripts/b.pyc": b"x"})
    found = read_skill(tree_of_folder(skill), "")
    assert {path: file.executable for path, file in found.items()} == {
        "SKILL.md": False,
        "scripts/run.sh": sys.platform != "win32",
    }
    assert found["SKILL.md"].data == b"text"


def test_only_the_skills_own_folder_is_read(skill: Path) -> None:
    assert set(read_skill(tree_of_folder(skill.parent), "x")) == {"SKILL.md", "scripts/run.sh"}
    write(skill.parent, {"xy/SKILL.md": "of another"})
    assert set(read_skill(tree_of_folder(skill.parent), "x")) == {"SKILL.md", "scripts/run.sh"}


@needs_links
def test_a_link_to_a_file_of_the_skill_becomes_the_file(skill: Path) -> None:
    (skill / "scripts/run.sh").chmod(0o755)
    (skill / "go").symlink_to("scripts/run.sh")
    (skill / "scripts/again").symlink_to("../go")
    found = read_skill(tree_of_folder(skill), "")
    assert found["go"] == found["scripts/again"] == found["scripts/run.sh"]


LINKS: dict[str, tuple[str, str, str]] = {
    "out": ("a", "../secret", "out of the skill"),
    "out and in again": ("a", "../x/SKILL.md", "out of the skill"),
    "absolute": ("a", "/etc/passwd", "out of the skill"),
    "a folder": ("a", "scripts", "to a folder"),
    "the skill itself": ("scripts/a", "..", "to a folder"),
    "nothing": ("a", "gone", "leads to nothing"),
    "itself": ("a", "a", "in a circle"),
    "through a link": ("a", "b/run.sh", "leads to nothing|to a folder"),
}


@needs_links
@pytest.mark.parametrize("name", LINKS)
def test_links_that_are_refused(skill: Path, name: str) -> None:
    (skill.parent / "secret").write_text("secret")
    path, to, reason = LINKS[name]
    (skill / path).symlink_to(to)
    if "/" in to and to.startswith("b"):
        (skill / "b").symlink_to("scripts")
    with pytest.raises(ScaffoldError, match=reason) as caught:
        read_skill(tree_of_folder(skill), "")
    assert caught.value.code == "skill_unsafe"


@needs_links
def test_a_circle_of_links_and_of_folders_ends(skill: Path) -> None:
    (skill / "a").symlink_to("b")
    (skill / "b").symlink_to("a")
    assert "in a circle" in refusal(tree_of_folder(skill)).message
    (skill / "a").unlink()
    (skill / "b").unlink()
    (skill.parent / "loop").symlink_to("..")
    assert "x/SKILL.md" in tree_of_folder(skill.parent).entries


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_refused_and_not_waited_for(skill: Path) -> None:
    os.mkfifo(skill / "pipe")
    error = refusal(tree_of_folder(skill))
    assert error.code == "skill_unsafe"
    assert "a pipe" in error.message


PATHS = {
    "up": ("../evil", "out of the skill"),
    "up inside": ("a/../../evil", "out of the skill"),
    "absolute": ("/evil", "out of the skill"),
    "git's folder": ("scripts/.git/config", "git or to the tool"),
    "git's folder in capitals": (".GIT/config", "git or to the tool"),
    "git's folder with a dot": (".git./config", "git or to the tool"),
    "the tool's": (".scaffold/made/x.toml", "git or to the tool"),
    "a drive": ("C:/x", "reserved characters"),
    "a stream": ("a.txt:b", "reserved characters"),
    "a backslash": ("a\\..\\b", "reserved characters"),
    "a device": ("scripts/AUX.py", "a device"),
    "another device": ("com1", "a device"),
    "a dot at the end": ("a./b", "dot or a space"),
    "a space at the end": ("a ", "dot or a space"),
    "a control character": ("a\nb", "reserved characters"),
    "a hidden character": ("a\u202eb", "hidden"),
    "not UTF-8": ("a\udcff", "not UTF-8"),
    "a long path": ("a/" * 100 + "b", "180 characters"),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_that_are_refused(name: str) -> None:
    path, reason = PATHS[name]
    error = refusal(listed("SKILL.md", path))
    assert error.code == "skill_unsafe"
    assert reason in error.message


@pytest.mark.parametrize(
    "paths", [("a.md", "A.md"), ("refs/x", "Refs/y"), ("caf\u00e9", "cafe\u0301"), ("skill.md",)]
)
def test_two_spellings_of_one_path_are_refused(paths: tuple[str, ...]) -> None:
    error = refusal(listed("SKILL.md", *paths))
    assert (error.code, "upper and lower case" in error.message) == ("skill_unsafe", True)


def test_submodules_and_pointers_are_refused() -> None:
    entries = {"SKILL.md": Entry("file", False, 1, "a"), "sub": Entry("submodule", False, 0, "b")}
    assert "submodule" in refusal(Tree(entries, lambda keys: {})).message
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    assert (
        "Git LFS" in refusal(Tree({"a": entries["SKILL.md"]}, lambda keys: {"a": pointer})).message
    )


def test_a_skill_of_10_mb_is_refused_unread() -> None:
    source = Tree(listed("SKILL.md", "big.bin", size_bytes=5_000_000).entries, _unread)
    error = refusal(source)
    assert error.code == "skill_too_large"
    assert "10.0 MB" in error.message


def test_a_skill_of_many_files_is_refused_unread() -> None:
    paths = [f"f{number}" for number in range(tree.MAX_SKILL_FILES + 1)]
    error = refusal(Tree(listed(*paths).entries, _unread))
    assert error.code == "skill_too_large"


def test_a_source_of_very_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_SOURCE_FILES", 2)
    write(tmp_path, {"a": "", "b": "", "c": ""})
    with pytest.raises(ScaffoldError) as caught:
        tree_of_folder(tmp_path)
    assert caught.value.code == "source_invalid"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Returns a folder that everybody may enter; pytest's own are for their maker alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def nobody() -> Iterator[None]:
    """Takes the rights of root away: nothing is unreadable to root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
@pytest.mark.parametrize("what", ["SKILL.md", "refs", "."])
def test_what_cannot_be_read_is_told(open_folder: Path, what: str) -> None:
    root = write(open_folder / "x", {"SKILL.md": "x", "refs/a.md": "x"})
    (root / what).chmod(0)
    with nobody(), pytest.raises(ScaffoldError, match="cannot be read") as caught:
        read_skill(tree_of_folder(root), "")
    (root / what).chmod(0o755)
    assert caught.value.code == "source_unreadable"


def _unread(keys: object) -> dict[str, bytes]:
    raise AssertionError(f"{keys} is read")
