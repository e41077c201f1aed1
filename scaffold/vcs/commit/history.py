"""What was committed before: subjects with the files that they describe."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.git import git_output
from scaffold.vcs.commit.conventional import Header, read_header

DEPTH = 400
"""How many commits back a history is asked."""

MAX_FILES = 300
"""Commits that touch more are imports and mass edits, whose subject describes no file."""


class Past(NamedTuple):
    """One commit of the past."""

    subject: str
    paths: frozenset[str]

    @property
    def header(self) -> Header | None:
        """Its first line, taken apart; None where it has another form."""
        return read_header(self.subject)


def past_commits(root: Path, start: str = "HEAD", limit: int | None = DEPTH) -> Iterator[Past]:
    """Yield commits from a start backwards, the newest first, without merges and first commits."""
    # Random, so that no subject in the output can contain the separator.
    mark = secrets.token_hex(16)
    form = f"--format={mark}%x00%P%x00%s%x00"
    options = ["--name-only", "-z", "--no-renames", "--no-merges"]
    options += [f"--max-count={limit}"] if limit is not None else []
    output = git_output(root, "log", *options, form, start, "--") or b""
    for part in output.decode("utf-8", "surrogateescape").split(mark)[1:]:
        _, parents, subject, rest = part.split("\0", 3)
        paths = frozenset(rest.strip("\0\n").split("\0")) - {""}
        # A shallow clone makes first commits of those where it was cut.
        if parents and len(paths) <= MAX_FILES:
            yield Past(subject, paths)
