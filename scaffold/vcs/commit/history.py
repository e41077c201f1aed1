"""What was committed before: subjects with the files that they describe."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.git import git_output
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.conventional import Header, read_header

DEPTH = 400
"""How many commits back a history is asked."""

MAX_FILES = 300
"""Commits that touch more are imports and mass edits, whose subject describes no file."""

_NO_BLOB = "0" * 40


class Edit(NamedTuple):
    """A path with git's names of its content before and after; zeros where it has none."""

    path: str
    old: str
    new: str


class Past(NamedTuple):
    """One commit of the past."""

    name: str
    subject: str
    edits: frozenset[Edit]

    @property
    def header(self) -> Header | None:
        """Its first line, taken apart; None where it has another form."""
        return read_header(self.subject)


def past_commits(root: Path, start: str = "HEAD", limit: int | None = DEPTH) -> Iterator[Past]:
    """Yield commits from a start backwards, the newest first, without merges and first commits."""
    # Random, so that no subject in the output can contain the separator.
    mark = secrets.token_hex(16)
    form = f"--format={mark}%x00%H%x00%P%x00%s%x00"
    options = ["--raw", "-z", "--no-abbrev", "--no-renames", "--no-merges"]
    options += [f"--max-count={limit}"] if limit is not None else []
    output = git_output(root, "log", *options, form, start, "--") or b""
    for part in output.decode("utf-8", "surrogateescape").split(mark)[1:]:
        _, name, parents, subject, rest = part.split("\0", 4)
        fields = rest.strip("\0\n").split("\0")
        # A shallow clone makes first commits of those where it was cut.
        if parents and len(fields) <= 2 * MAX_FILES:
            yield Past(name, subject, frozenset(_edits(fields)))


def edits_of(changes: Sequence[FileChange]) -> frozenset[Edit]:
    """Return changes as edits of single paths; a renamed file goes and comes."""
    found: set[Edit] = set()
    for each in changes:
        if each.old_path == each.new_path:
            found.add(Edit(each.path, each.old_id, each.new_id))
            continue
        if each.old_path and each.status != "C":
            found.add(Edit(each.old_path, each.old_id, _NO_BLOB))
        if each.new_path:
            found.add(Edit(each.new_path, _NO_BLOB, each.new_id))
    return frozenset(found)


def _edits(fields: list[str]) -> Iterator[Edit]:
    # `:100644 100644 OLD NEW M`, and the path as a field of its own.
    for head, path in zip(fields[0::2], fields[1::2], strict=False):
        _, _, old, new, _ = head.split(" ")
        yield Edit(path, old, new)
