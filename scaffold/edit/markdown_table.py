"""Markdown: a row of a table.

``table`` is the heading that the table stands under (the only table before the next heading), or
else what the first cell of its header row says; empty, it is the only table of the page. ``key`` is
the row's first cell as Markdown spells it, a link with its brackets, say; ``value`` the other
cells, joined by `` | `` where there are several. A ``|`` inside a cell is escaped in the file, not
here.

A table whose columns are even gets a row of the same widths, as long as it fits; else the row
stands unpadded, and no other line is touched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Span, context_of, line_for, list_index, read_text, require_one_line
from scaffold.edit.markdown_text import Page, content, read_page, starts_block, visible
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit

# The text of one cell, up to a pipe that no backslash escapes.
_CELLS = re.compile(r"(?:[^|\\]|\\.|\\$)*")
# The line between header and rows: `|---|:-:|`, outer pipes and spaces optional.
_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

Measure = Callable[[str], int]


@dataclass(frozen=True)
class _Row:
    """A line of a table; ``cells`` with the spaces around them."""

    line: int
    cells: tuple[str, ...]
    text: str

    @property
    def key(self) -> str:
        return _read_cell(self.cells[0])


@dataclass(frozen=True)
class _Table:
    page: Page
    header: _Row
    rule: _Row
    rows: tuple[_Row, ...]

    @property
    def width(self) -> int:
        return len(self.rule.cells)

    def value(self, row: _Row) -> str:
        """Return the cells behind the first; those that a row leaves out are empty."""
        cells = [*row.cells, *[""] * self.width][1 : self.width]
        return " | ".join(map(_read_cell, cells))

    def find(self, key: str) -> list[_Row]:
        return [row for row in self.rows if content(row.key) == content(key)]


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return each row's first cell with the others, without escapes."""
    found = _locate(data, entry, context_of(entry))
    return {content(row.key): content(found.value(row)) for row in found.rows}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the row is there, however it is padded and escaped."""
    found = _locate(data, entry, context_of(entry))
    return any(_matches(found, row, entry) for row in found.find(entry.key))


def text_to_add(entry: Entry) -> str:
    """Return the row without padding."""
    # A pipe between spaces parts two cells of the value; any other is text and gets its backslash.
    value = re.sub(r"\|(?! )|(?<! )\|", r"\\|", entry.value)
    return f"| {_write_cell(entry.key)} | {value} |" if value else f"| {_write_cell(entry.key)} |"


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add a row at its sorted place, or below the others where they are not sorted."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    found = _locate(data, entry, context)
    for row in found.find(entry.key):
        if _matches(found, row, entry):
            return Edit(data, row.line + 1)
        reason = f"{entry.key!r} means {found.value(row)!r}"
        raise context.refusal("registry_differs", row.line + 1, reason)
    cells = _cells_of(found, entry, context)
    index = list_index([visible(row.key) for row in found.rows], visible(entry.key))
    spans = [Span(row.line, row.line) for row in found.rows]
    line = line_for(spans, index, found.rule.line + 1, lambda _: False)
    after = found.page.text.with_line(line, _line(found, cells))
    _check(found, after, entry, line, context)
    return Edit(after, line + 1)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take a row out."""
    context = context_of(entry)
    found = _locate(data, entry, context)
    hits = found.find(entry.key)
    # Of two rows of one name the one that the tool wrote is taken out, never a person's.
    if len(hits) > 1:
        hits = [row for row in hits if _matches(found, row, entry)] or hits
    if len(hits) > 1:
        reason = f"{entry.key!r} is there twice"
        raise context.refusal("registry_computed", hits[1].line + 1, reason)
    return found.page.text.without_line(hits[0].line) if hits else data


def _matches(found: _Table, row: _Row, entry: Entry) -> bool:
    return content(found.value(row)) == content(entry.value)


# ---- finding the table ---------------------------------------------------------------------------


def _locate(data: bytes, entry: Entry, context: Context) -> _Table:
    page = read_page(read_text(data, context))
    everywhere = _tables(page, range(len(page.text.lines)))
    sections = page.sections(entry.table) if entry.table else []
    hits = [each for section in sections for each in _tables(page, section)]
    if not hits and entry.table:
        wanted = content(entry.table)
        # No heading of this name leads to a table: the first cell of a header row may have it.
        hits = [each for each in everywhere if content(each.header.key) == wanted]
    elif not entry.table:
        hits = everywhere
    name = repr(entry.table) if entry.table else "the page"
    if not hits:
        line = sections[0].start if sections else 0
        raise context.refusal("registry_missing", line, f"there is no table under {name}")
    if len(hits) > 1:
        line = hits[1].header.line + 1
        raise context.refusal("registry_computed", line, f"{name} has more than one table")
    return hits[0]


def _tables(page: Page, lines: range) -> list[_Table]:
    tables: list[_Table] = []
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
            rows = _rows(page, number + 2, lines.stop)
            tables.append(_Table(page, first, second, rows))
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


def _rows(page: Page, start: int, stop: int) -> tuple[_Row, ...]:
    rows: list[_Row] = []
    for number in range(start, stop):
        line = page.text.lines[number]
        if not page.is_text[number] or "|" not in line or starts_block(line):
            break
        rows.append(_row(number, line))
    return tuple(rows)


def _row(number: int, line: str) -> _Row:
    text = line.strip()
    cells: list[str] = []
    offset = 1 if text.startswith("|") else 0
    while offset < len(text):
        found = _CELLS.match(text, offset)
        assert found is not None
        cells.append(found[0])
        # Behind the pipe; one at the end of the line opens no further cell.
        offset = found.end() + 1
    return _Row(number, tuple(cells) or ("",), line)


def _read_cell(cell: str) -> str:
    return cell.strip().replace(r"\|", "|")


def _write_cell(text: str) -> str:
    return text.strip().replace("|", r"\|")


# ---- the row -------------------------------------------------------------------------------------


def _cells_of(found: _Table, entry: Entry, context: Context) -> list[str]:
    # In a table of two columns ` | ` is part of the one value.
    values = entry.value.split(" | ") if found.width > 2 and entry.value else [entry.value]
    values = [""] * (found.width - 1) if not entry.value else values
    line = found.header.line + 1
    if len(values) != found.width - 1:
        reason = f"the table has {found.width} columns, the entry {len(values) + 1}"
        raise context.refusal("registry_computed", line, reason)
    # `\|` in a text, or a backslash at its end, would take the pipe that ends the cell.
    if any(re.search(r"\\\||\\$", text.strip()) for text in (entry.key, *values)):
        raise context.refusal("registry_computed", line, "a backslash would hide a column")
    return [_write_cell(text) for text in (entry.key, *values)]


def _line(found: _Table, cells: list[str]) -> str:
    header = found.header.text.rstrip()
    indent = header[: len(header) - len(header.lstrip())]
    leads = header[len(indent)] == "|"
    # `|a|b|` and `| a | b |`: the header shows whether cells have spaces around them.
    is_spaced = not leads or found.header.cells[0][:1] in (" ", "")
    pad = " " if is_spaced else ""
    row = "|".join(_padded(found, cells, pad) or [pad + cell + pad for cell in cells])
    row = "|" + row if leads else row.lstrip()
    return indent + (row + "|" if re.search(r"(?<!\\)\|$", header) else row.rstrip())


def _padded(found: _Table, cells: list[str], pad: str) -> list[str] | None:
    """Return the cells at the widths of an even table, or None where they do not fit."""
    table = (found.header, found.rule, *found.rows)
    # Editors align wide characters by their columns, formatters often by their number.
    for measure in (_columns, len):
        widths = [measure(cell) for cell in found.header.cells]
        if all([measure(cell) for cell in row.cells] == widths for row in table):
            # What a cell's text may take of its column.
            rooms = [width - 2 * len(pad) for width in widths]
            if any(measure(cell) > room for cell, room in zip(cells, rooms, strict=True)):
                return None
            return [
                pad + _justified(found, n, cell, room, pad, measure) + pad
                for n, (cell, room) in enumerate(zip(cells, rooms, strict=True))
            ]
    return None


def _columns(text: str) -> int:
    """Return how many columns a terminal needs for a text."""
    # Wide and full-width characters take two columns, combining ones none.
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _justified(found: _Table, column: int, cell: str, room: int, pad: str, measure: Measure) -> str:
    """Put a cell where its column's rule says, unless the rows do otherwise."""
    rule = found.rule.cells[column].strip()
    gap = room - measure(cell)
    front = gap if re.fullmatch("-+:", rule) else gap // 2 if re.fullmatch(":-+:", rule) else 0
    lefts = [row.cells[column].startswith(pad + row.cells[column].strip()) for row in found.rows]
    # People align at the left whatever the rule asks the browser to do.
    front = 0 if lefts and all(lefts) else front
    return " " * front + cell + " " * (gap - front)


def _check(found: _Table, after: bytes, entry: Entry, line: int, context: Context) -> None:
    """Read the page again: the same table has this row more."""
    edited = _locate(after, entry, context)
    others = [row.text for row in edited.rows if row.line != line]
    mine = [row for row in edited.rows if row.line == line]
    is_right = (
        mine and content(mine[0].key) == content(entry.key) and _matches(edited, mine[0], entry)
    )
    if not is_right or others != [row.text for row in found.rows]:
        reason = "the edited page reads differently"
        raise context.refusal("registry_computed", found.header.line + 1, reason)
