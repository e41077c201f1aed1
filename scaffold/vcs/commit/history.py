"""What was committed before: subjects with the changes that they describe."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from scaffold.vcs.changes import PATCH_OPTIONS, FileChange, parse_changes

if TYPE_CHECKING:
    import git

DEPTH = 400
"""How many commits back a repository's habits are learned from."""

MAX_FILES = 300
"""Commits that touch more are imports and mass edits, whose subject describes no file."""

# Files above this size are binary to git, so that no patch of them is made.
_BIG_FILE = "core.bigFileThreshold=256k"
# `feat(api)!: add x`.
_HEADER = re.compile(
    r"(?P<type>[A-Za-z]+)(?:\((?P<scope>[^()]*)\))?(?P<mark>!?): +(?P<subject>\S.*)"
)


class Header(NamedTuple):
    """The first line of a Conventional Commit, taken apart."""

    type: str
    scope: str | None
    is_breaking: bool
    subject: str


class Past(NamedTuple):
    """One commit of the past."""

    name: str
    subject: str
    changes: tuple[FileChange, ...]

    @property
    def header(self) -> Header | None:
        """Its first line, taken apart; None where it has another form."""
        return read_header(self.subject)


def read_header(line: str) -> Header | None:
    """Return the parts of a first line; None where it is no Conventional Commit."""
    match = _HEADER.fullmatch(line.strip())
    if match is None:
        return None
    scope = (match["scope"] or "").strip() or None
    return Header(match["type"].lower(), scope, bool(match["mark"]), match["subject"])


def past_commits(
    repository: git.Repo, limit: int | None = DEPTH, start: str = "HEAD"
) -> Iterator[Past]:
    """Yield commits from a start backwards, the newest first.

    Merges are left out, and first commits, which a shallow clone invents where it was cut.

    Args:
        repository: The repository, which has a commit.
        limit: How many commits at most; None means all.
        start: Where to begin.
    """
    # Random, so that no patch in the output can contain the separator.
    mark = secrets.token_hex(16)
    options = ["--no-merges", f"--format={mark}%x00%H%x00%P%x00%s%x00"]
    options += [f"--max-count={limit}"] if limit is not None else []
    # A dump of data is one change of one file; its lines would only cost time.
    runner = repository.git(c=_BIG_FILE)
    output: bytes = runner.log(
        *PATCH_OPTIONS, *options, start, "--", stdout_as_string=False, strip_newline_in_stdout=False
    )
    for part in output.split(mark.encode())[1:]:
        _, name, parents, subject, rest = part.split(b"\0", 4)
        if parents:
            # `-z` puts a NUL, and the format a line end, in front of the raw lines.
            changes = parse_changes(rest.lstrip(b"\0\n"))
            if 0 < len(changes) <= MAX_FILES:
                yield Past(name.decode(), subject.decode("utf-8", "replace"), changes)
