"""The files of a repository as they were at a revision."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from scaffold.analysis.files.files import MAX_BYTES, Files
from scaffold.analysis.files.git import git_command, git_environment, git_output
from scaffold.errors import RequestError


class RevisionFiles(Files):
    """The tree of a revision, read from git and never from the disk.

    Args:
        root: The top folder of the repository.
        revision: The commit's hash.
        objects: The id of each file's content, by path.
    """

    def __init__(self, root: Path, revision: str, objects: dict[str, str]) -> None:
        super().__init__(root, list(objects), has_git=True)
        self.revision = revision
        self._objects = objects
        self._process: subprocess.Popen[bytes] | None = None

    def why_unreadable(self, path: str) -> str:
        """Return why `text` gives none for a path."""
        return f"is not text at {self.revision[:12]}"

    def close(self) -> None:
        """End the process that reads."""
        if self._process is not None:
            with suppress(OSError):
                # Closes its input, on which cat-file ends.
                self._process.communicate()
            self._process = None

    def _read_bytes(self, path: str) -> bytes | None:
        name = self._objects.get(path)
        if name is None:
            return None
        process = self._started()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        process.stdin.write(f"{name}\n".encode())
        process.stdin.flush()
        # cat-file --batch answers "<id> <type> <size>" and then exactly size bytes and a line feed.
        answer = process.stdout.readline().split()
        if answer[-1:] in ([], [b"missing"]):  # a damaged repository, or one that has only a part
            return None
        size = int(answer[-1])
        # A blob that is too long is read all the same: the stream would be out of step otherwise.
        data = process.stdout.read(size)
        process.stdout.read(1)  # the line feed behind it
        return data if size <= MAX_BYTES else None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                git_command("cat-file", "--batch"),
                cwd=self.root,
                env=git_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def revision_files(root: Path, revision: str) -> RevisionFiles:
    """Return the files of a revision.

    Raises:
        RequestError: git knows no such revision here.
    """
    # `^{commit}` follows tags to their commit, and refuses names of trees and blobs.
    name = git_output(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if name is None:
        raise RequestError(f"git has no revision {revision!r} in {root}", code="usage")
    commit = name.decode().strip()
    listed = git_output(root, "ls-tree", "-r", "-z", "--full-tree", commit) or b""
    objects: dict[str, str] = {}
    for row in listed.split(b"\0"):
        head, _, path = row.partition(b"\t")
        fields = head.split()
        # Mode 120000 is a link, whose blob holds its target and no content; commits are submodules.
        if len(fields) == 3 and fields[1] == b"blob" and fields[0] != b"120000":
            objects[path.decode("utf-8", "surrogateescape")] = fields[2].decode()
    return RevisionFiles(root, commit, objects)
