"""Plain text: a line of a list, such as an entry of a ``toctree`` or a name in a ``.txt`` file.

``table`` is a whole line, without its indentation, below which the list begins: a comment, a
directive (``.. toctree::``), or an option of one (``:caption: Reference``), which distinguishes
directives. Options and blank lines below a directive are passed over, and its list goes on as
long as lines are indented. Any other list ends at a blank line. Without ``table`` the list is the
whole file, apart from blank lines and comments. ``key`` is the line; there is no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Lines, Span, Text, list_index

# reStructuredText: `.. toctree::`, and below it `:maxdepth: 2`.
_DIRECTIVE = re.compile(r"\.\. [\w:.+-]+::")
_OPTION = re.compile(r":[\w-]+:(?:\s|$)")
# `# ...` or a comment of reStructuredText (`.. text`); a line such as `#include::` is an entry.
_COMMENT = re.compile(r"\s*(?:#(?!\S*::)|\.\.(?:\s|$))")


@dataclass(frozen=True)
class _Line:
    """A line of a list, with single spaces."""

    key: str
    number: int
    value: str = ""


class TextLines(Lines[_Line]):
    """The lines of a list."""

    @staticmethod
    def text(entry: Entry) -> str:
        return entry.key

    def find(self) -> list[_Line]:
        text, entry = self.file, self.entry
        if not entry.table:
            numbers = [
                n for n, line in enumerate(text.lines) if line.strip() and not _COMMENT.match(line)
            ]
            return self._lines(numbers, _below_head(text), "")
        wanted = _collapsed(entry.table)
        hits = [n for n, line in enumerate(text.lines) if _collapsed(line) == wanted]
        if not hits:
            raise self.refusal("registry_missing", 0, f"no line has {entry.table!r}")
        if len(hits) > 1:
            line = hits[1] + 1
            raise self.refusal("registry_computed", line, f"{entry.table!r} is there twice")
        # A list of reStructuredText ends where the indentation does, others at a blank line.
        if _DIRECTIVE.match(wanted) or _OPTION.match(wanted):
            return self._under_directive(hits[0])
        return self._under_marker(hits[0])

    def _lines(self, numbers: Iterable[int], start: int, indent: str) -> list[_Line]:
        """Return lines as items, and keep where and how a first one would be."""
        self.start, self.indent = start, indent
        return [_Line(_collapsed(self.file.lines[number]), number) for number in numbers]

    def _under_marker(self, marker: int) -> list[_Line]:
        numbers: list[int] = []
        for number in range(marker + 1, len(self.file.lines)):
            line = self.file.lines[number]
            if not line.strip():
                break
            if not _COMMENT.match(line):
                numbers.append(number)
        indent = re.findall(r"^\s*", self.file.lines[marker])[0]
        return self._lines(numbers, marker + 1, indent)

    def _under_directive(self, marker: int) -> list[_Line]:
        """Find the entries of a directive, by its first line or by one of its options."""
        lines = self.file.lines
        head = marker
        # The option names one of several directives; only options may lie between the two.
        while head >= 0 and not _DIRECTIVE.match(lines[head].lstrip()):
            if not _OPTION.match(lines[head].lstrip()):
                raise self.refusal("registry_computed", marker + 1, "the option has no directive")
            head -= 1
        if head < 0:
            raise self.refusal("registry_computed", marker + 1, "the option has no directive")
        depth = _depth(lines[head])
        below = head + 1
        while (
            below < len(lines)
            and _OPTION.match(lines[below].lstrip())
            and _depth(lines[below]) > depth
        ):
            below += 1
        numbers: list[int] = []
        for number in range(below, len(lines)):
            if lines[number].strip() and _depth(lines[number]) <= depth:
                break
            if lines[number].strip() and not re.match(r"\s*\.\.(?:\s|$)", lines[number]):
                numbers.append(number)
        # Without a blank line docutils reads what follows as arguments or options of the directive.
        is_apart = below < len(lines) and not lines[below].strip()
        if not is_apart:
            reason = "no blank line parts the entries from the directive"
            raise self.refusal("registry_computed", head + 1, reason)
        # An empty list has the indentation of the options above it, or four spaces.
        option = lines[below - 1] if below > head + 1 else " " * (depth + 4)
        return self._lines(numbers, below + 1, re.findall(r"^\s*", option)[0])

    def is_comment(self, line: int) -> bool:
        return _COMMENT.match(self.file.lines[line]) is not None

    def line(self, item: _Line) -> int:
        return item.number + 1

    def hits(self) -> list[_Line]:
        return [item for item in self.items if item.key == _collapsed(self.entry.key)]

    def check_entry(self) -> None:
        super().check_entry()
        # What would be read back as a comment or an option is no entry, and would be added again on
        # every run.
        key = self.entry.key
        is_item = key == key.strip() and not _COMMENT.match(key) and not _OPTION.match(key)
        if not self.hits() and (self.entry.value or not is_item):
            raise self.refusal("registry_computed", 0, "the entry is not a line of a list")

    def with_entry(self) -> bytes:
        key, lines = self.entry.key, self.file.lines
        index = list_index([_target(item.key) for item in self.items], _target(key))
        spans = [Span(item.number, item.number) for item in self.items]
        line = self.line_for(spans, index, self.start)
        # The neighbour's own indentation counts: tabs and odd widths are kept.
        near = lines[self.items[max(index - 1, 0)].number] if self.items else self.indent
        return self.file.with_line(line, re.findall(r"^\s*", near)[0] + key)

    def without(self, hits: list[_Line]) -> bytes:
        return self.file.without_line(hits[0].number)

    def said(self, without: _Line | None = None) -> object:
        return [item.key for item in self.items if item is not without]


def _target(line: str) -> str:
    """Return the page of ``Title <page>``; lists are sorted by pages."""
    found = re.search(r"<([^<>]+)>$", line)
    return found[1] if found else _collapsed(line)


def _collapsed(line: str) -> str:
    return " ".join(line.split())


def _below_head(text: Text) -> int:
    """Return the line below the comments that a file without items begins with."""
    lines = text.lines
    return next((n for n, line in enumerate(lines) if not _COMMENT.match(line)), len(lines))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
