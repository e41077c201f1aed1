"""The type of a change, where something proves it; the scope only where the settings name it.

Measured on seven histories that keep Conventional Commits, general rules agree with the author on
two of five new features and half of all fixes, and a scope is guessed no better than by always
naming the most frequent one. So a word is given for what the repository has always called so.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.globs import matches
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.conventional import Header, Rules, read_header
from scaffold.vcs.commit.settings import PathRule
from scaffold.vcs.roles import kind_of

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


ENOUGH = 12
"""Earlier commits of the same roles from which their type is the repository's custom."""

AGREED = 0.95


class Word(NamedTuple):
    """A type or scope that is given, or None with what keeps it from being given."""

    word: str | None
    why: str


def find_type(
    changes: Sequence[FileChange], past: Iterable[Past], table: Sequence[PathRule], rules: Rules
) -> Word:
    """Return the type of a change.

    The path table of the settings names it, or nearly all earlier commits to files of the same
    roles have it, or all files are documentation.
    """
    named = from_table(changes, table, "type")
    if named.word is not None:
        return named
    sides = ((each.old_path, each.new_path) for each in changes)
    roles = {kind_of(path) for both in sides for path in both if path}
    shown = " and ".join(sorted(roles))
    seen: Counter[str] = Counter()
    for each in past:
        if each.header and {kind_of(path) for path in each.paths} == roles:
            seen[each.header.type] += 1
    word, count = seen.most_common(1)[0] if seen else ("", 0)
    told = f"{count} of {seen.total()} earlier commits to {shown} alone"
    if seen.total() >= ENOUGH and count >= AGREED * seen.total() and word in rules.types:
        return Word(word, told)
    # Without a history of its own a repository most likely has everybody's custom.
    if roles == {"docs"} and not seen and "docs" in rules.types:
        return Word("docs", "only documentation changes")
    doubt = "too few to go by" if seen.total() < ENOUGH else "yours to choose"
    return Word(None, f"{told} are {word!r}: {doubt}" if seen else "no earlier commit shows one")


def from_table(
    changes: Sequence[FileChange], table: Sequence[PathRule], which: Literal["type", "scope"]
) -> Word:
    """Return the word that the path table gives most of the files, if it is more than half."""
    found: Counter[str] = Counter()
    for change in changes:
        rows = [row for row in table if matches(change.path, [row.pattern])]
        words = [word for row in rows if (word := getattr(row, which)) is not None]
        # The last row that matches counts, as in a .gitignore.
        found.update(words[-1:])
    word, count = found.most_common(1)[0] if found else ("", 0)
    # Files that no row matches count against the word.
    if count * 2 <= len(changes):
        return Word(None, "")
    where = "[tool.scaffold.commits.paths]"
    return Word(word, f"{count} of {len(changes)} files, by {where}")
