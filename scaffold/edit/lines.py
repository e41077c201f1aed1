"""Text as lines that come back the same, and where a line goes among others.

The registries that are not Python are edited by whole lines: one goes in, or one comes out. Line
ends, a byte order mark and a missing final newline stay as they are.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.ordering import ORDERS
from scaffold.edit.refusal import Context

_ROW = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_MARKER = re.compile(r"(<{7}|>{7}) ")
_GENERATED = re.compile(
    r"(?i)\s*(?:#|<!--|\.\.|//|;).*(@generated\b|\bdo not (?:edit|modify)\b"
    r"|\b(?:auto[- ]?)?generated (?:by|from)\b|\bauto(?:matically)?[- ]?generated\b)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")


def context_of(entry: Entry, text: str = "") -> Context:
    """Return what a refusal about an entry has to name."""
    return Context(entry.file, entry.table or entry.file, text)


@dataclass(frozen=True)
class Text:
    """A file as lines without their ends; line numbers count from 0 here.

    Args:
        bom: The byte order mark that the file begins with, or nothing.
        lines: The text of each line.
        ends: How each line ends; the last end is empty where the final newline is missing.
    """

    bom: bytes
    lines: tuple[str, ...]
    ends: tuple[str, ...]

    def with_line(self, index: int, line: str) -> bytes:
        """Return the file with one line more, in front of line ``index``."""
        end = self._end_near(index)
        lines, ends = list(self.lines), list(self.ends)
        # A file without a final newline stays without one: the line that was last gets an end.
        if index == len(ends) and ends and not ends[-1]:
            ends[-1], end = end, ""
        lines.insert(index, line)
        ends.insert(index, end)
        return _joined(self.bom, lines, ends)

    def without_line(self, index: int) -> bytes:
        """Return the file with line ``index`` taken out."""
        lines, ends = list(self.lines), list(self.ends)
        del lines[index]
        end = ends.pop(index)
        if index == len(ends) and ends and not end:
            ends[-1] = ""
        return _joined(self.bom, lines, ends)

    def _end_near(self, index: int) -> str:
        # In a file of mixed line ends the neighbour decides.
        near = self.ends[index - 1] if index else ""
        return near or next((end for end in self.ends if end), "\n")


def _joined(bom: bytes, lines: Sequence[str], ends: Sequence[str]) -> bytes:
    pairs = zip(lines, ends, strict=True)
    return bom + "".join(line + end for line, end in pairs).encode("utf-8")


def read_text(data: bytes, context: Context) -> Text:
    """Split a file into lines.

    Raises:
        RegistryError: The file is no UTF-8, is generated, or holds conflict markers.
    """
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        text = data[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, len(bom) + error.start) + 1
        raise context.refusal("registry_syntax", line, "the file is not UTF-8") from error
    # str.splitlines would split at form feeds and other characters that are text here.
    rows = [(row[1], row[2]) for row in _ROW.finditer(text) if row[0]]
    lines, ends = tuple(line for line, _ in rows), tuple(end for _, end in rows)
    for number, line in enumerate(lines, 1):
        if _MARKER.match(line):
            reason = "the file holds merge conflict markers"
            raise context.refusal("registry_syntax", number, reason)
        # Notices are at the top; further down the words are about other files.
        if number <= 5 and _GENERATED.match(line):
            raise context.refusal("registry_generated", number, "the file is generated")
    return Text(bom, lines, ends)


def require_one_line(entry: Entry, context: Context) -> None:
    """Check that key and value fit on a line of text.

    Raises:
        RegistryError: One of them holds a line break or a control character, or the key is empty.
    """
    if not entry.key.strip() or _CONTROL.search(entry.key + entry.value):
        raise context.refusal("registry_computed", 0, "the entry is no single line of text")


@dataclass(frozen=True)
class Span:
    """An item of a list: it lies on the lines ``first`` to ``last``, comments above not."""

    first: int
    last: int


def line_for(
    spans: Sequence[Span], index: int, start: int, is_comment: Callable[[int], bool]
) -> int:
    """Return the line in front of which a new item goes to become item ``index``.

    Args:
        spans: The items that are there; at least one, or ``start`` is where the first goes.
        index: Which item the new one becomes.
        start: The first line of the list, comments above the first item included.
        is_comment: Tells whether a line is a comment on its own.

    Returns:
        The line number. Comments above an item stay with it, those above the first with the list,
        unless other items have comments too.
    """
    if not spans:
        return start
    if index:
        return spans[index - 1].last + 1
    gaps = [range(a.last + 1, b.first) for a, b in itertools.pairwise(spans)]
    if not any(is_comment(line) for gap in gaps for line in gap):
        return spans[0].first
    line = spans[0].first
    while line > start and is_comment(line - 1):
        line -= 1
    return line


def list_index(keys: Sequence[str], key: str, least: int = 2) -> int:
    """Return where a key goes to keep a sorted list sorted; behind the others where none is.

    Args:
        keys: The keys in the order of the file.
        key: The new key.
        least: How many keys it takes to call their order a decision. Readers are led through a
            table of contents, so that a lone "Home" stays in front of what is added.
    """
    if len(keys) < least:
        return len(keys)
    for order in ORDERS:
        ranks, rank = [order(each) for each in keys], order(key)
        if ranks == sorted(ranks):
            return next((n for n, each in enumerate(ranks) if each > rank), len(keys))
    return len(keys)
