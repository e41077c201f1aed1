"""The files of a commit, of the index or of the disk, each as one state of a repository."""

from __future__ import annotations

from pathlib import Path

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.revision import RevisionFiles, objects_of, tree_objects


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


def files_at(root: Path, tree: str) -> StateFiles:
    """Return the files of a commit or tree."""
    return _state(root, tree, tree_objects(root, tree))


def indexed_files(root: Path) -> StateFiles:
    """Return the files of the index; of an unmerged one, the last of its versions."""
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
    return objects_of(git_output(root, "ls-files", "-z", "--stage", "--full-name") or b"", 1)
