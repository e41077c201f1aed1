"""A changed file: its role, its lines on both sides, its definitions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from scaffold.vcs.changes import FileChange
from scaffold.vcs.review.languages import language_of
from scaffold.vcs.review.revisions import Comparison
from scaffold.vcs.review.roles import Role, role_of
from scaffold.vcs.symbols import Symbol, read_symbols, symbol_at

Side = Literal["old", "new"]


class Block(NamedTuple):
    """Adjacent lines that were removed, or added."""

    side: Side
    start: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ChangedFile:
    """One changed file.

    Args:
        change: Git's record of it.
        role: What it is for.
        old_text: What it held; None where that was no text, or nothing.
        new_text: What it holds.
    """

    change: FileChange
    role: str
    old_text: str | None
    new_text: str | None

    @property
    def path(self) -> str:
        """Its path; of a deleted file the old one."""
        return self.change.path

    def path_on(self, side: Side) -> str:
        """Return its path on one side; that of the other one where it is not there."""
        path = self.change.old_path if side == "old" else self.change.new_path
        return path or self.path

    def blocks(self, side: Side) -> Iterator[Block]:
        """Yield what was taken out of the old side, or put into the new one."""
        for hunk in self.change.hunks:
            lines = hunk.removed if side == "old" else hunk.added
            if lines:
                yield Block(side, hunk.old_start if side == "old" else hunk.new_start, lines)

    def symbols(self, side: Side) -> tuple[Symbol, ...] | None:
        """Return the definitions of one side; None where they are not read."""
        return self.old_symbols if side == "old" else self.new_symbols

    @cached_property
    def old_symbols(self) -> tuple[Symbol, ...] | None:
        """The definitions before; none of a new file, None where they are not read."""
        return self._read("old", self.old_text)

    @cached_property
    def new_symbols(self) -> tuple[Symbol, ...] | None:
        """The definitions after; none of a deleted file, None where they are not read."""
        return self._read("new", self.new_text)

    @property
    def is_unread_source(self) -> bool:
        """Whether it is a program whose definitions are not known on one side."""
        unread = self.old_symbols is None or self.new_symbols is None
        # A page or a picture has no definitions to read.
        return unread and language_of(self.path) is not None

    def symbol_around(self, side: Side, number: int) -> Symbol | None:
        """Return the innermost definition around a line."""
        return symbol_at(self.symbols(side) or (), number)

    def _read(self, side: Side, text: str | None) -> tuple[Symbol, ...] | None:
        if text is None:
            # No file means no definitions; a file without text means unknown ones.
            is_there = self.change.old_path if side == "old" else self.change.new_path
            return None if is_there else ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            return read_symbols(self.path_on(side), text)


def read_changed_files(comparison: Comparison, roles: tuple[Role, ...]) -> tuple[ChangedFile, ...]:
    """Return the changed files of a comparison.

    Args:
        comparison: The two states.
        roles: The roles that the repository adds.
    """
    found: list[ChangedFile] = []
    for change in comparison.changes:
        old = comparison.old.text(change.old_path) if change.old_path else None
        new = comparison.new.text(change.new_path) if change.new_path else None
        text = new if new is not None else old
        found.append(ChangedFile(change, role_of(change.path, text, roles), old, new))
    return tuple(found)
