"""The files of a commit, of the index or of the disk, each as one state of a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.revision import RevisionFiles
from scaffold.vcs.repository import root_of

if TYPE_CHECKING:
    import git

# Modes of links and submodules, which have no text to read.
_NO_FILES = (b"120000", b"160000")


class StateFiles(RevisionFiles):
    """One state of a repository; what the disk has of it unchanged is read there.

    Args:
        root: The top folder of the repository.
        revision: What the state is called.
        objects: The id of each file's content, by path.
        same: The files that the disk has as this state does.
    """

    def __init__(
        self, root: Path, revision: str, objects: dict[str, str], same: frozenset[str]
    ) -> None:
        super().__init__(root, revision, objects)
        self._same = same

    def _read_bytes(self, path: str) -> bytes | None:
        if path in self._same:
            return Files._read_bytes(self, path)
        return super()._read_bytes(path)


def files_at(repository: git.Repo, tree: str) -> RevisionFiles:
    """Return the files of a commit or tree."""
    root = root_of(repository)
    listed = git_output(root, "ls-tree", "-r", "-z", "--full-tree", tree) or b""
    return _state(root, tree, dict(_objects(listed, 2)))


def indexed_files(repository: git.Repo) -> RevisionFiles:
    """Return the files of the index; of an unmerged one, the last of its versions."""
    root = root_of(repository)
    return _state(root, "index", _index(root))


def _state(root: Path, name: str, objects: dict[str, str]) -> StateFiles:
    index = _index(root)
    listed = git_output(root, "diff-files", "-z", "--name-only", "--no-ext-diff")
    touched = {each.decode("utf-8", "surrogateescape") for each in (listed or b"").split(b"\0")}
    # Equal ids mean equal content, and reading the disk is faster than asking git.
    same = (path for path, each in objects.items() if index.get(path) == each)
    # Where git cannot list what was touched, everything counts as touched.
    untouched = frozenset(same) - touched if listed is not None else frozenset[str]()
    return StateFiles(root, name, objects, untouched)


def _index(root: Path) -> dict[str, str]:
    return dict(_objects(git_output(root, "ls-files", "-z", "--stage", "--full-name") or b"", 1))


def _objects(listed: bytes, column: int) -> Iterator[tuple[str, str]]:
    """Yield path and object of each row of git's lists, links and submodules apart."""
    for row in listed.split(b"\0"):
        head, _, path = row.partition(b"\t")
        fields = head.split()
        if fields and fields[0] not in _NO_FILES:
            yield path.decode("utf-8", "surrogateescape"), fields[column].decode()
