"""The files of a repository as they were at a revision."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from scaffold.analysis.files.files import MAX_BYTES, Files
from scaffold.analysis.files.git import git_command, git_environment, git_output
from scaffold.errors import RequestError


class Objects:
    """The objects of a repository, read by one process of git: one for each would take too long.

    Args:
        root: The top folder of the repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None where it is missing."""
        process = self._started()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        process.stdin.write(f"{name}\n".encode())
        process.stdin.flush()
        # cat-file --batch answers "<id> <type> <size>" and then exactly size bytes and a line feed.
        answer = process.stdout.readline().split()
        if answer[-1:] in ([], [b"missing"]):  # a damaged repository, or one that has only a part
            return None
        return process.stdout.read(int(answer[-1]) + 1)[:-1]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with suppress(OSError):
                # Closes its input, on which cat-file ends.
                self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                git_command("cat-file", "--batch"),
                cwd=self._root,
                env=git_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


class RevisionFiles(Files):
    """The tree of a revision, read from git and never from the disk.

    Args:
        root: The top folder of the repository.
        revision: The commit's hash.
        objects: The id of each file's content, by path.
        unlisted: The links and submodules, which have no content here.
    """

    def __init__(
        self, root: Path, revision: str, objects: dict[str, str], unlisted: frozenset[str]
    ) -> None:
        super().__init__(root, list(objects), has_git=True)
        self.revision = revision
        self._names = objects
        self._unlisted = unlisted
        self._objects = Objects(root)

    def why_unreadable(self, path: str) -> str:
        """Return why `text` gives none for a path."""
        return f"is not text at {self.revision[:12]}"

    def is_unlisted(self, path: str) -> bool:
        """Return whether a link or a submodule is at a path."""
        return path in self._unlisted

    def close(self) -> None:
        """End the process that reads."""
        self._objects.close()

    def _read_bytes(self, path: str) -> bytes | None:
        data = self._objects.read(self._names[path]) if path in self._names else None
        return None if data is None or len(data) > MAX_BYTES else data


def revision_files(root: Path, revision: str) -> RevisionFiles:
    """Return the files of a revision.

    Raises:
        RequestError: git knows no such revision here.
    """
    # `^{commit}` follows tags to their commit, and refuses names of trees and blobs.
    name = git_output(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if name is None:
        raise RequestError(f"git has no revision {revision!r} in {root}", code="usage")
    return tree_files(root, name.decode().strip())


def tree_files(root: Path, tree: str) -> RevisionFiles:
    """Return the files of a commit or tree, by its hash."""
    listed = git_output(root, "ls-tree", "-r", "-z", "--full-tree", tree)
    return RevisionFiles(root, tree, *_read_rows(listed or b"", 2))


def indexed_files(root: Path) -> RevisionFiles:
    """Return the files of the index; of an unmerged one, the last of its versions."""
    listed = git_output(root, "ls-files", "-z", "--stage", "--full-name")
    return RevisionFiles(root, "index", *_read_rows(listed or b"", 1))


def _read_rows(listed: bytes, column: int) -> tuple[dict[str, str], frozenset[str]]:
    """Return path and object of each row of git's lists, and the links and submodules."""
    found: dict[str, str] = {}
    unlisted: set[str] = set()
    for row in listed.split(b"\0"):
        head, _, name = row.partition(b"\t")
        fields, path = head.split(), name.decode("utf-8", "surrogateescape")
        # Mode 120000 is a link, whose blob holds its target and no content; 160000 a submodule.
        if fields and fields[0] in (b"120000", b"160000"):
            unlisted.add(path)
        elif fields:
            found[path] = fields[column].decode()
    return found, frozenset(unlisted)
