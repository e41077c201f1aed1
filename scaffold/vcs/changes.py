"""What changed between two states of a repository: its files, with the lines of each hunk."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scaffold.vcs.repository import Repository

Status = Literal["A", "C", "D", "M", "R", "T", "U"]
"""Added, copied, deleted, modified, renamed, of another type, unmerged: the letters of git."""

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, which is in every repository of SHA-1 object names."""

# Modes of git for a symbolic link and for a commit of another repository.
LINK, SUBMODULE = "120000", "160000"

# `@@ -12,3 +14 @@ def f():`, and where the patch of the next file begins, one in conflict included.
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_SECTION = re.compile(r"^(diff --git |diff --(?:cc|combined) |\* Unmerged path )", re.MULTILINE)
PATCH_OPTIONS = (
    "--raw", "-z", "--patch", "--unified=0", "--find-renames", "--full-index", "--abbrev=40",
    "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short",
    "--ignore-submodules=dirty",
)  # fmt: skip
"""What git's diff, log and show are given for output that `parse_changes` reads."""


class Hunk(NamedTuple):
    """One place of a file where lines were removed, added, or both.

    Lines are counted from 1 and have no line ends. Where none was taken out (or put in),
    ``old_start`` (or ``new_start``) is the line behind which the place lies.
    """

    old_start: int
    removed: tuple[str, ...]
    new_start: int
    added: tuple[str, ...]


@dataclass(frozen=True)
class FileChange:
    """The change of one file.

    Args:
        status: What happened, as git's letter.
        old_path: Where it was; None for a new one.
        new_path: Where it is; None for one that is gone.
        old_mode: Its mode as six octal digits, such as "100755"; "000000" where it was not.
        new_mode: The mode that it has now.
        old_id: The name of git's object with the old content; zeros where there is none.
        new_id: That of the new content; zeros too for files that git has not stored yet.
        similarity: Of a renamed or copied file, how much stayed, in per cent.
        is_binary: Whether git takes either content for something else than text.
        hunks: The changed places; none in binary files and submodules.
    """

    status: Status
    old_path: str | None
    new_path: str | None
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    similarity: int | None = None
    is_binary: bool = False
    hunks: tuple[Hunk, ...] = ()

    @property
    def path(self) -> str:
        """The new path of the file, or the old one of a deleted file."""
        path = self.new_path or self.old_path
        assert path is not None, "git names at least one"
        return path

    @property
    def is_submodule(self) -> bool:
        """Whether it is a submodule, whose content is another repository's commit."""
        return SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def added_count(self) -> int:
        return sum(len(hunk.added) for hunk in self.hunks)

    @property
    def removed_count(self) -> int:
        return sum(len(hunk.removed) for hunk in self.hunks)


def changes_between(repository: Repository, old: str, new: str) -> tuple[FileChange, ...]:
    """Return what changed from one commit or tree to another, in git's order of paths."""
    return _read(repository, old, new)


def staged_changes(repository: Repository) -> tuple[FileChange, ...]:
    """Return what the next commit would change."""
    return _read(repository, "--cached", "HEAD" if repository.head else EMPTY_TREE)


def unstaged_changes(repository: Repository, base: str | None = None) -> tuple[FileChange, ...]:
    """Return what differs on the disk from the index, or from a commit; new files apart."""
    return _read(repository, *([base] if base else []))


def old_text(repository: Repository, change: FileChange) -> str | None:
    """Return the text of a file before its change; None where it was no text."""
    return blob_text(repository, change.old_id, change.old_mode)


def new_text(repository: Repository, change: FileChange) -> str | None:
    """Return the text of a file after its change; None where it is none, or git has none of it."""
    return blob_text(repository, change.new_id, change.new_mode)


def blob_text(repository: Repository, name: str, mode: str = "100644") -> str | None:
    """Return a stored content as text, odd bytes replaced; None for binary and missing ones."""
    # An id of zeros is a file that does not exist, or one on the disk that git has not stored.
    if mode in (LINK, SUBMODULE) or not name.strip("0"):
        return None
    data = repository.object(name)
    return None if data is None or b"\0" in data[:8192] else data.decode("utf-8", "replace")


def _read(repository: Repository, *which: str) -> tuple[FileChange, ...]:
    return parse_changes(repository.read("diff", *PATCH_OPTIONS, *which, "--"))


def parse_changes(output: bytes) -> tuple[FileChange, ...]:
    """Return the changes that git printed with `PATCH_OPTIONS`, in its order."""
    # An empty path comes after the last one, and then the patch.
    raw, _, patch = output.partition(b"\0\0")
    fields = iter(raw.removesuffix(b"\0").decode("utf-8", "surrogateescape").split("\0"))
    parts = _SECTION.split(patch.decode("utf-8", "replace"))[1:]
    sections = _Sections(zip(parts[0::2], parts[1::2], strict=True))
    return tuple(_change(head, fields, sections) for head in fields if head)


class _Sections:
    """The parts of a patch in their order; a file in conflict need not have one."""

    def __init__(self, parts: Iterable[tuple[str, str]]) -> None:
        self._parts = deque(parts)

    def take(self, *, is_unmerged: bool) -> str:
        """Return the next part; nothing where it belongs to another file."""
        if not self._parts or (is_unmerged and self._parts[0][0] == "diff --git "):
            return ""
        return self._parts.popleft()[1]


def _change(head: str, fields: Iterator[str], sections: _Sections) -> FileChange:
    """Build a change from its raw line ``:MODE MODE ID ID LETTER`` and its part of the patch.

    A file in conflict that is compared with the disk has two old modes, behind ``::``.
    """
    words = head.lstrip(":").split(" ")
    if head.startswith("::"):
        half = len(words) // 2
        words = [words[0], words[half - 1], words[half], words[-2], "U"]
    old_mode, new_mode, old_id, new_id, letter = words
    status: Status = letter[0]  # pyright: ignore[reportAssignmentType] # git has no others
    old_path: str | None = next(fields)
    new_path = next(fields) if status in "CR" else old_path
    # Git shows a change of type as a deletion and an addition.
    is_unmerged = status == "U"
    parts = [sections.take(is_unmerged=is_unmerged) for _ in range(2 if status == "T" else 1)]
    hunks = [] if is_unmerged else [hunk for part in parts for hunk in _hunks(part)]
    is_submodule = SUBMODULE in (old_mode, new_mode)
    return FileChange(
        status,
        None if status == "A" else old_path,
        None if status == "D" else new_path,
        old_mode,
        new_mode,
        old_id,
        new_id,
        int(letter[1:]) if letter[1:] else None,
        any(_is_binary(part) for part in parts),
        () if is_submodule else tuple(hunks),
    )


def _is_binary(part: str) -> bool:
    # In front of the first hunk: a changed line may hold the same words.
    head = part.partition("\n@@ ")[0]
    return "\nBinary files " in head or "\nGIT binary patch" in head


def _hunks(part: str) -> Iterator[Hunk]:
    """Yield the hunks of one file's part of a patch without context lines."""
    match: re.Match[str] | None = None
    removed: list[str] = []
    added: list[str] = []
    # The head behind the last line closes the last hunk.
    for line in [*part.split("\n"), "@@"]:
        if line.startswith("@@"):
            if match is not None:
                yield Hunk(int(match[1]), tuple(removed), int(match[2]), tuple(added))
            match, removed, added = _HUNK.match(line), [], []
        elif match is not None and line.startswith("-"):
            removed.append(line[1:].removesuffix("\r"))
        elif match is not None and line.startswith("+"):
            added.append(line[1:].removesuffix("\r"))
