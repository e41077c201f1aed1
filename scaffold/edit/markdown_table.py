"""Markdown: a row of a table.

``table`` is the heading that the table is under (the only table before the next heading), or
else the first cell of its header row; empty, it is the only table of the page. ``key`` is
the row's first cell as Markdown spells it, a link with its brackets, say; ``value`` the other
cells, joined by `` | `` where there are several. A ``|`` inside a cell is escaped in the file, not
here.

A table whose columns are even gets a row of the same widths, as long as it fits; else the row
is unpadded, and no other line is touched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Span, list_index
from scaffold.edit.markdown_text import Markdown, Page, content, starts_block, visible

# The text of one cell, up to a pipe that no backslash escapes.
_CELLS = re.compile(r"(?:[^|\\]|\\.|\\$)*")
# The line between header and rows: `|---|:-:|`, outer pipes and spaces optional.
_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

Measure = Callable[[str], int]


@dataclass(frozen=True)
class _Row:
    """A line of a table; ``cells`` with the spaces around them."""

    key: str
    value: str
    number: int
    cells: tuple[str, ...]
    text: str


_Found = tuple[_Row, _Row, tuple[_Row, ...]]
"""A table: its header, the rule below it, and its rows."""


class MarkdownTable(Markdown[_Row]):
    """The rows of one table of a page."""

    @staticmethod
    def text(entry: Entry) -> str:
        # A pipe between spaces parts two cells of the value; any other is text, with a backslash.
        value = re.sub(r"\|(?! )|(?<! )\|", r"\\|", entry.value)
        key = _write_cell(entry.key)
        return f"| {key} | {value} |" if value else f"| {key} |"

    def find(self) -> tuple[_Row, ...]:
        page, entry = self.page, self.entry
        everywhere = _tables(page, range(len(page.text.lines)))
        sections = page.sections(entry.table) if entry.table else []
        hits = [each for section in sections for each in _tables(page, section)]
        if not hits and entry.table:
            wanted = content(entry.table)
            # No heading of this name leads to a table: the first cell of a header row may have it.
            hits = [each for each in everywhere if content(each[0].key) == wanted]
        elif not entry.table:
            hits = everywhere
        name = repr(entry.table) if entry.table else "the page"
        if not hits:
            line = sections[0].start if sections else 0
            raise self.refusal("registry_missing", line, f"there is no table under {name}")
        if len(hits) > 1:
            line = hits[1][0].number + 1
            raise self.refusal("registry_computed", line, f"{name} has more than one table")
        self.header, self.rule, rows = hits[0]
        return rows

    def line(self, item: _Row) -> int:
        return item.number + 1

    def with_entry(self) -> bytes:
        row = self._written(self._cells())
        index = list_index([visible(row.key) for row in self.items], visible(self.entry.key))
        spans = [Span(row.number, row.number) for row in self.items]
        line = self.line_for(spans, index, self.rule.number + 1)
        return self.file.with_line(line, row)

    def without(self, hits: list[_Row]) -> bytes:
        if len(hits) > 1:
            reason = f"{self.entry.key!r} is there twice"
            raise self.refusal("registry_computed", self.line(hits[1]), reason)
        return self.file.without_line(hits[0].number)

    def said(self, without: _Row | None = None) -> object:
        return [row.text for row in self.items if row is not without]

    def unsound(self) -> tuple[int, str]:
        return self.line(self.header), super().unsound()[1]

    def _cells(self) -> list[str]:
        entry, width = self.entry, len(self.rule.cells)
        # In a table of two columns ` | ` is part of the one value.
        values = entry.value.split(" | ") if width > 2 and entry.value else [entry.value]
        values = [""] * (width - 1) if not entry.value else values
        line = self.header.number + 1
        if len(values) != width - 1:
            reason = f"the table has {width} columns, the entry {len(values) + 1}"
            raise self.refusal("registry_computed", line, reason)
        # `\|` in a text, or a backslash at its end, would take the pipe that ends the cell.
        if any(re.search(r"\\\||\\$", text.strip()) for text in (entry.key, *values)):
            raise self.refusal("registry_computed", line, "a backslash would hide a column")
        return [_write_cell(text) for text in (entry.key, *values)]

    def _written(self, cells: list[str]) -> str:
        header = self.header.text.rstrip()
        indent = header[: len(header) - len(header.lstrip())]
        leads = header[len(indent)] == "|"
        # `|a|b|` and `| a | b |`: the header shows whether cells have spaces around them.
        is_spaced = not leads or self.header.cells[0][:1] in (" ", "")
        pad = " " if is_spaced else ""
        row = "|".join(self._padded(cells, pad) or [pad + cell + pad for cell in cells])
        row = "|" + row if leads else row.lstrip()
        return indent + (row + "|" if re.search(r"(?<!\\)\|$", header) else row.rstrip())

    def _padded(self, cells: list[str], pad: str) -> list[str] | None:
        """Return the cells at the widths of an even table, or None where they do not fit."""
        table = (self.header, self.rule, *self.items)
        # Editors align wide characters by their columns, formatters often by their number.
        for measure in (_columns, len):
            widths = [measure(cell) for cell in self.header.cells]
            if all([measure(cell) for cell in row.cells] == widths for row in table):
                # What a cell's text may take of its column.
                rooms = [width - 2 * len(pad) for width in widths]
                if any(measure(cell) > room for cell, room in zip(cells, rooms, strict=True)):
                    return None
                return [
                    pad + self._justified(n, cell, room, pad, measure) + pad
                    for n, (cell, room) in enumerate(zip(cells, rooms, strict=True))
                ]
        return None

    def _justified(self, column: int, cell: str, room: int, pad: str, measure: Measure) -> str:
        """Put a cell where its column's rule aligns it, unless the rows do otherwise."""
        rule = self.rule.cells[column].strip()
        gap = room - measure(cell)
        front = gap if re.fullmatch("-+:", rule) else gap // 2 if re.fullmatch(":-+:", rule) else 0
        lefts = [
            row.cells[column].startswith(pad + row.cells[column].strip()) for row in self.items
        ]
        # People align at the left whatever the rule asks the browser to do.
        front = 0 if lefts and all(lefts) else front
        return " " * front + cell + " " * (gap - front)


def _tables(page: Page, lines: range) -> list[_Found]:
    tables: list[_Found] = []
    below = lines.start
    for number in range(lines.start, lines.stop - 1):
        header, rule = page.text.lines[number], page.text.lines[number + 1]
        # Rows of a table that was found look like the header of another one.
        if number < below or not (page.is_text[number] and page.is_text[number + 1]):
            continue
        # Four spaces make a block of code, where pipes are pipes.
        if re.match(r" {4}|\t", header) or _RULE.match(header) or not _RULE.match(rule):
            continue
        if _is_lazy(page, number):
            continue
        first, second = _row(number, header), _row(number + 1, rule)
        # GitHub takes two lines for a table only if their columns agree.
        if len(first.cells) == len(second.cells) and "|" in header and "|" in rule:
            rows = _rows(page, number + 2, lines.stop, len(second.cells))
            tables.append((first, second, rows))
            below = number + 2 + len(rows)
    return tables


def _is_lazy(page: Page, number: int) -> bool:
    """Return whether a line goes on with a paragraph that a list item or a quotation began."""
    while number and page.is_text[number] and page.text.lines[number].strip():
        if starts_block(page.text.lines[number]):
            # A heading ends on its line, so the line below it begins a paragraph of its own.
            return not page.text.lines[number].lstrip().startswith("#")
        number -= 1
    return False


def _rows(page: Page, start: int, stop: int, width: int) -> tuple[_Row, ...]:
    rows: list[_Row] = []
    for number in range(start, stop):
        line = page.text.lines[number]
        if not page.is_text[number] or "|" not in line or starts_block(line):
            break
        rows.append(_row(number, line, width))
    return tuple(rows)


def _row(number: int, line: str, width: int = 0) -> _Row:
    text = line.strip()
    cells: list[str] = []
    offset = 1 if text.startswith("|") else 0
    while offset < len(text):
        found = _CELLS.match(text, offset)
        assert found is not None
        cells.append(found[0])
        # Behind the pipe; one at the end of the line opens no further cell.
        offset = found.end() + 1
    # The cells that a row leaves out are empty, and those that it has too many do not show.
    others = [*cells, *[""] * width][1 : width or len(cells)]
    value = " | ".join(map(_read_cell, others))
    return _Row(_read_cell(cells[0] if cells else ""), value, number, tuple(cells) or ("",), line)


def _read_cell(cell: str) -> str:
    return cell.strip().replace(r"\|", "|")


def _write_cell(text: str) -> str:
    return text.strip().replace("|", r"\|")


def _columns(text: str) -> int:
    """Return how many columns a terminal needs for a text."""
    # Wide and full-width characters take two columns, combining ones none.
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
