"""Bytes between the entries of a registry: lines, indentation, comments, and splices into them.

Offsets count in the UTF-8 text of `scaffold.edit.source.Source.raw`; a line ends as in Python, by
``\\n``, ``\\r\\n`` or ``\\r`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NEWLINE = re.compile(rb"\r\n|\n|\r")
TAIL = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(\r\n|\n|\r)")
"""What may be between an entry and the end of its line."""

# Whitespace, line ends (a backslash continues a line) and comments, in any order and number.
_LAYOUT = re.compile(rb"(?:[ \t\f]|(?:\\)?(?:\r\n|\n|\r)|#[^\r\n]*)*")
_INDENT = re.compile(rb"[ \t\f]*")
# A comment with only whitespace in front of it on its line.
_OWN_LINE_COMMENT = re.compile(rb"(?:^|[\r\n])[ \t\f]*(#[^\r\n]*)")


@dataclass(frozen=True)
class Splice:
    """One replacement: the bytes from ``start`` to ``end`` give way to ``text``."""

    start: int
    end: int
    text: bytes = b""


@dataclass(frozen=True)
class Element:
    """One of several parts between commas; ``comma`` is the offset of the comma behind it."""

    start: int
    end: int
    comma: int | None

    @property
    def after(self) -> int:
        """The offset behind the element and its comma."""
        return self.end if self.comma is None else self.comma + 1


@dataclass(frozen=True)
class Brackets:
    """Elements in brackets: ``inside`` is the offset behind the opening one, ``close`` the other's.

    Args:
        is_bare: Whether elements get no lines of their own, mostly for want of brackets.
    """

    raw: bytes
    inside: int
    close: int
    items: Sequence[Element]
    is_bare: bool = False

    @property
    def unit(self) -> bytes:
        """One step of indentation."""
        return b"\t" if re.search(rb"^\t", self.raw, re.MULTILINE) else b"    "


def spliced(raw: bytes, splices: Iterable[Splice]) -> bytes:
    """Return the text with all replacements made; they must not overlap."""
    # From the back, so that the offsets of splices that are still to come stay true.
    for splice in sorted(splices, key=lambda each: each.start, reverse=True):
        raw = raw[: splice.start] + splice.text + raw[splice.end :]
    return raw


def line_at(raw: bytes, offset: int) -> int:
    """Return the number of the line, from 1, that an offset is in."""
    return len(NEWLINE.findall(raw, 0, offset)) + 1


def line_starts(raw: bytes) -> list[int]:
    """Return the offset at which each line begins."""
    return [0, *(found.end() for found in NEWLINE.finditer(raw))]


def line_start(raw: bytes, offset: int) -> int:
    """Return where the line of an offset begins."""
    return max(raw.rfind(b"\n", 0, offset), raw.rfind(b"\r", 0, offset)) + 1


def newline_before(raw: bytes, offset: int) -> int:
    """Return where the line end in front of the line of an offset begins."""
    start = line_start(raw, offset)
    return start - 2 if raw[start - 2 : start] == b"\r\n" else start - 1


def begins_line(raw: bytes, offset: int) -> bool:
    """Return whether only whitespace comes before an offset on its line."""
    return not raw[line_start(raw, offset) : offset].strip()


def indent_at(raw: bytes, offset: int) -> bytes:
    """Return the whitespace that the line of an offset begins with."""
    found = _INDENT.match(raw, line_start(raw, offset))
    assert found is not None
    return found[0]


def column_pad(raw: bytes, offset: int) -> bytes:
    """Return whitespace as wide as what comes before an offset on its line."""
    before = raw[line_start(raw, offset) : offset].decode("utf-8")
    # Tabs stay tabs: their width is the editor's, and only a tab is as wide as a tab.
    return "".join("\t" if each == "\t" else " " for each in before).encode()


def skip_layout(raw: bytes, offset: int) -> int:
    """Return the offset of the first byte that is no whitespace, comment or continued line."""
    found = _LAYOUT.match(raw, offset)
    assert found is not None
    return found.end()


def own_line_comments(gap: bytes) -> list[bytes]:
    """Return the comments in a gap between two entries that have a line to themselves."""
    return [found[1] for found in _OWN_LINE_COMMENT.finditer(gap)]
