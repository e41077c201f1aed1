"""TOML: an element of an array, or a key of a table.

``table`` is the dotted path from the root, quoted where TOML quotes it: ``tool.x.paths`` is an
array, whose elements are texts known by what they say (no value), ``project.scripts`` a table,
where the entry is ``key = "value"``. An empty ``table`` means the keys above the first header. With
``code = ["value"]`` the value is TOML source: a number, ``true``, an array.

A table that has no header of its own (an inline table, or one made of dotted keys alone) and what
stands in an array of tables is refused. Every edit is read again by the standard library: the
document has changed by the entry and nothing else.
"""

from __future__ import annotations

import bisect
import itertools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from scaffold.edit import splicing, toml_scan
from scaffold.edit.entry import Entry
from scaffold.edit.layout import Brackets, Element, Splice, line_at, own_line_comments, spliced
from scaffold.edit.lines import (
    Span,
    Text,
    context_of,
    line_for,
    list_index,
    read_text,
    require_one_line,
)
from scaffold.edit.placing import Slot
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit
from scaffold.edit.toml_scan import Statement

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class _File:
    """A file that was read: its text, its content as tomllib has it, and its statements."""

    text: Text
    raw: str
    document: dict[str, Any]
    statements: tuple[Statement, ...]

    def line(self, offset: int) -> int:
        """Return the number of an offset's line, from 0."""
        return self.raw.count("\n", 0, offset)


@dataclass(frozen=True)
class _Table:
    """A table or array; ``at`` is its header or key, ``rows`` the keys below the header."""

    file: _File
    content: dict[str, Any] | list[Any]
    at: Statement | None
    rows: tuple[Statement, ...] = ()


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the keys of a table, or the texts of an array with empty values."""
    content = _locate(data, entry, context_of(entry)).content
    if isinstance(content, list):
        return {each: "" for each in content if isinstance(each, str)}
    return {key: value if isinstance(value, str) else None for key, value in content.items()}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the entry is there, however it is written."""
    return _has(_locate(data, entry, context_of(entry)).content, entry)


def text_to_add(entry: Entry) -> str:
    """Return the line for a table, or the element where the entry has no value."""
    if not entry.value:
        return _string(entry.key, '"') + ","
    return _key(entry.key) + " = " + _value(entry, '"')


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add the entry at its sorted place, or behind the others where they are not sorted."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    _require_source(entry, context)
    # tomllib reads what is there and keeps no places; the scan of statements finds the line.
    found = _locate(data, entry, context)
    if _has(found.content, entry):
        return Edit(data, _line_of(found, entry.key) + 1)
    if entry.key in found.content:
        line = _line_of(found, entry.key) + 1
        reason = f"{entry.key!r} has another value"
        raise context.refusal("registry_differs", line, reason)
    if isinstance(found.content, list):
        after = _with_element(found, entry, context)
    else:
        after = _with_key(found, entry, context)
    edited = _locate(after, entry, context)
    if not _has(edited.content, entry):
        raise context.refusal("registry_computed", 0, "the edited file reads differently")
    line = _line_of(edited, entry.key) + 1
    _check(found, edited, entry, context)
    return Edit(after, line)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take a key with its line, or an element, back."""
    context = context_of(entry)
    found = _locate(data, entry, context)
    if entry.key not in found.content:
        return data
    if isinstance(found.content, list):
        index = found.content.index(entry.key)
        return _spliced(found.file, splicing.removal(_array(found), index))
    # `x.key = 1` below the same header ends in the name, and belongs to a table x.
    hits = [row for row in found.rows if row.path[-1] == entry.key and row.names == 1]
    line = _line_of(found, entry.key)
    if not hits or found.file.line(hits[0].end) != line:
        reason = f"{entry.key!r} is not on a line of its own"
        raise context.refusal("registry_computed", line + 1, reason)
    return found.file.text.without_line(line)


# ---- finding the table ---------------------------------------------------------------------------


def _read(data: bytes, context: Context) -> _File:
    text = read_text(data, context)
    raw = "".join(line + end for line, end in zip(text.lines, text.ends, strict=True))
    try:
        document = tomllib.loads(raw)
    except tomllib.TOMLDecodeError as error:
        # The error of tomllib has its place in the message alone before Python 3.14.
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.lines)
        raise context.refusal(
            "registry_syntax", line, f"the file is not valid TOML: {error}"
        ) from error
    return _File(text, raw, document, tuple(toml_scan.statements(raw)))


def _locate(data: bytes, entry: Entry, context: Context) -> _Table:
    file = _read(data, context)
    path = toml_scan.key_path(entry.table) if entry.table else ()
    content: Any = file.document
    for name in path:
        content = cast("dict[str, Any]", content).get(name) if isinstance(content, dict) else None
    near = [each for each in file.statements if each.path[: len(path)] == path]
    line = file.line(near[0].start) + 1 if near else 0
    if content is None:
        raise context.refusal("registry_missing", 0, f"there is no {entry.table}")
    # A header of [[tables]] repeats its path; which of them is meant cannot be told.
    exact = [each for each in near if each.path == path and not each.is_in_array]
    if isinstance(content, list) and exact and exact[0].value is not None:
        return _Table(file, cast("list[Any]", content), exact[0])
    if isinstance(content, dict) and (not path or (exact and exact[0].value is None)):
        at = exact[0] if path else None
        rows = _rows(file, at)
        return _Table(file, cast("dict[str, Any]", content), at, rows)
    kind = "has no header of its own" if isinstance(content, dict) else "is not an array of texts"
    raise context.refusal("registry_computed", line, f"{entry.table} {kind}")


def _rows(file: _File, at: Statement | None) -> tuple[Statement, ...]:
    """Return the keys between a header and the next one."""
    start = file.statements.index(at) + 1 if at else 0
    rows: list[Statement] = []
    for each in file.statements[start:]:
        if each.value is None:
            break
        rows.append(each)
    return tuple(rows)


def _array(found: _Table) -> Brackets:
    """Return the array, by its places in the text as bytes."""
    assert found.at is not None
    assert found.at.value is not None
    text = found.file.raw

    def at(offset: int) -> int:
        return len(text[:offset].encode())

    elements, close = toml_scan.brackets(text, found.at.value)
    items = [
        Element(at(each.start), at(each.end), None if each.comma is None else at(each.comma))
        for each in elements
    ]
    return Brackets(text.encode(), at(found.at.value + 1), at(close), items)


def _line_of(found: _Table, key: str) -> int:
    """Return the line, from 0, of a key or element that is there."""
    file = found.file
    if isinstance(found.content, list):
        return line_at(file.raw.encode(), _array(found).items[found.content.index(key)].start) - 1
    # `a.b = 1` below the header makes the key `a`: the path is compared only as far as that.
    depth = len(found.at.path) if found.at else 0
    outer = found.at.path if found.at else ()
    path = (*outer, key)
    hit = next(each for each in file.statements if each.path[: depth + 1] == path)
    return file.line(hit.start)


def _has(content: dict[str, Any] | list[Any], entry: Entry) -> bool:
    if isinstance(content, list):
        return not entry.value and entry.key in content
    value = toml_scan.read_value(entry.value) if "value" in entry.code else entry.value
    known = content.get(entry.key)
    # Python has it that 1 == True == 1.0; for TOML these are three values.
    return type(known) is type(value) and known == value


# ---- what is added, and where --------------------------------------------------------------------


def _require_source(entry: Entry, context: Context) -> None:
    if "value" in entry.code:
        try:
            toml_scan.read_value(entry.value)
        except tomllib.TOMLDecodeError as error:
            reason = f"{entry.value!r} is not a TOML value"
            raise context.refusal("registry_computed", 0, reason) from error


def _with_element(found: _Table, entry: Entry, context: Context) -> bytes:
    array = _array(found)
    content = cast("list[Any]", found.content)
    if entry.value or any(not isinstance(each, str) for each in content):
        assert found.at is not None
        line = found.file.line(found.at.start) + 1
        raise context.refusal("registry_computed", line, f"{entry.table} is not an array of texts")
    index = list_index(content, entry.key)
    first = array.items[0].start if array.items else 0
    quote = "'" if array.raw[first : first + 1] == b"'" else '"'
    gaps = (array.raw[a.after : b.start] for a, b in itertools.pairwise(array.items))
    # Comments above the first element head the array, unless other elements have some of their own.
    slot = Slot(index, not index and not any(map(own_line_comments, gaps)))
    element = _string(entry.key, quote).encode()
    return _spliced(found.file, splicing.insertion(array, slot, element))


def _with_key(found: _Table, entry: Entry, context: Context) -> bytes:
    file, rows = found.file, found.rows
    lines = file.text.lines
    starts = [file.line(row.start) for row in rows]
    if not rows:
        if found.at is None:
            reason = "there are no keys above the first table"
            raise context.refusal("registry_computed", 0, reason)
        return file.text.with_line(file.line(found.at.start) + 1, _row(found, entry, 0))
    names = [row.path[len(found.at.path) if found.at else 0] for row in rows]
    index = list_index(names, entry.key)
    spans = [Span(start, file.line(row.end)) for start, row in zip(starts, rows, strict=True)]
    first = file.line(found.at.start) + 1 if found.at else 0

    def is_comment(line: int) -> bool:
        return lines[line].lstrip().startswith("#")

    start = spans[0].first
    # Comments above the first key belong to it, and stay there.
    while start > first and is_comment(start - 1):
        start -= 1
    line = line_for(spans, index, start, is_comment)
    return file.text.with_line(line, _row(found, entry, bisect.bisect(starts, line)))


def _row(found: _Table, entry: Entry, near: int) -> str:
    """Write the line as its neighbours are written: indentation, equals sign and quotes."""
    raw, rows = found.file.raw, found.rows
    if not rows:
        return _key(entry.key) + " = " + _value(entry, '"')
    # The neighbour above, or the first key where the line goes above all of them.
    row = rows[max(near - 1, 0)]
    assert row.value is not None
    indent = re.findall(r"[ \t]*\Z", raw[: row.start])[0]
    gaps = [_gap(raw, each) for each in rows]
    # One column, and more than one space in front of a sign: the signs are aligned on purpose.
    columns = {each.equals - each.start for each in rows}
    key = _key(entry.key) + _gap(raw, row)[:1]
    if len(columns) == 1 and max(map(len, gaps)) > 1:
        key = key.ljust(columns.pop())
    return indent + key + raw[row.equals : row.value] + _value(entry, raw[row.value])


def _gap(raw: str, row: Statement) -> str:
    """Return the whitespace in front of an equals sign."""
    return re.findall(r"[ \t]*\Z", raw[row.start : row.equals])[0]


def _key(text: str) -> str:
    return text if _BARE_KEY.fullmatch(text) else _string(text, '"')


def _value(entry: Entry, quote: str) -> str:
    return entry.value if "value" in entry.code else _string(entry.value, quote)


def _string(text: str, quote: str) -> str:
    if quote == "'" and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _spliced(file: _File, splices: Iterable[Splice]) -> bytes:
    return file.text.bom + spliced(file.raw.encode(), splices)


# ---- checking ------------------------------------------------------------------------------------


def _check(found: _Table, edited: _Table, entry: Entry, context: Context) -> None:
    """Take the entry out of what the edited file says: the first document is left."""
    if isinstance(edited.content, list):
        edited.content.remove(entry.key)
    else:
        edited.content.pop(entry.key)
    # repr tells 1 from 1.0 and from True, which == does not
    if repr(edited.file.document) != repr(found.file.document):
        raise context.refusal("registry_computed", 0, "the edited file reads differently")
