"""TOML: an element of an array, or a key of a table.

``table`` is the dotted path from the root, quoted where TOML quotes it: ``tool.x.paths`` is an
array, whose elements are texts known by what they say (no value), ``project.scripts`` a table,
where the entry is ``key = "value"``. An empty ``table`` means the keys above the first header. With
``code = ["value"]`` the value is TOML source: a number, ``true``, an array.

A table that has no header of its own (an inline table, or one made of dotted keys alone) and what
is in an array of tables is refused. Every edit is read again by the standard library: the
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
from scaffold.edit.lines import Lines, Span, list_index
from scaffold.edit.placing import Slot
from scaffold.edit.toml_scan import Statement

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class _Item:
    """A key of the table with its content, or an element of the array; ``value`` where it is text.

    Elements are known by what they say, others than texts by nothing.
    """

    key: str | None
    value: str | None
    content: Any


class TomlLines(Lines[_Item]):
    """The keys of a table, or the texts of an array."""

    @staticmethod
    def text(entry: Entry) -> str:
        if not entry.value:
            return _string(entry.key, '"') + ","
        return _key(entry.key) + " = " + _value(entry, '"')

    def find(self) -> list[_Item]:
        pairs = zip(self.file.lines, self.file.ends, strict=True)
        self.raw = "".join(line + end for line, end in pairs)
        self.path = toml_scan.key_path(self.entry.table) if self.entry.table else ()
        try:
            self.content: Any = self._content(tomllib.loads(self.raw))
        except tomllib.TOMLDecodeError as error:
            # The error of tomllib has its place in the message alone before Python 3.14.
            found = re.search(r"at line (\d+)", str(error))
            line = int(found[1]) if found else len(self.file.lines)
            reason = f"the file is not valid TOML: {error}"
            raise self.refusal("registry_syntax", line, reason) from error
        self.is_array = isinstance(self.content, list)
        self.statements = list(toml_scan.statements(self.raw))
        self.at = self._statement()
        if self.is_array:
            return [_Item(_as_text(each), "", each) for each in self.content]
        return [_Item(key, _as_text(value), value) for key, value in self.content.items()]

    def _content(self, document: dict[str, Any]) -> Any:
        """Return what the table's path leads to in a document."""
        content: Any = document
        for name in self.path:
            table = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
            content = table.get(name)
        return content

    def _statement(self) -> Statement | None:
        """Return the table's header, or the array's key; None for the keys above all headers."""
        path, table = self.path, self.entry.table
        if self.content is None:
            raise self.refusal("registry_missing", 0, f"there is no {table}")
        near = [each for each in self.statements if each.path[: len(path)] == path]
        # A header of [[tables]] repeats its path; which of them is meant cannot be told.
        exact = [each for each in near if each.path == path and not each.is_in_array]
        if not path or (exact and self.is_array == (exact[0].value is not None)):
            return exact[0] if path else None
        line = self._line(near[0].start) + 1 if near else 0
        kind = "has no header of its own" if not self.is_array else "is not an array of texts"
        raise self.refusal("registry_computed", line, f"{table} {kind}")

    @property
    def _rows(self) -> list[Statement]:
        """The keys between the table's header and the next one."""
        start = self.statements.index(self.at) + 1 if self.at else 0
        return list(itertools.takewhile(lambda e: e.value is not None, self.statements[start:]))

    @property
    def _array(self) -> Brackets:
        """The array, by its places in the text as bytes."""
        assert self.at is not None
        assert self.at.value is not None

        def at(offset: int) -> int:
            return len(self.raw[:offset].encode())

        elements, close = toml_scan.brackets(self.raw, self.at.value)
        items = [
            Element(at(each.start), at(each.end), None if each.comma is None else at(each.comma))
            for each in elements
        ]
        return Brackets(self.raw.encode(), at(self.at.value + 1), at(close), items)

    def _line(self, offset: int) -> int:
        """Return the number of an offset's line, from 0."""
        return self.raw.count("\n", 0, offset)

    def line(self, item: _Item) -> int:
        if self.is_array:
            element = self._array.items[self.items.index(item)]
            return line_at(self.raw.encode(), element.start)
        # `a.b = 1` below the header makes the key `a`: the path is compared only as far as that.
        path = (*(self.at.path if self.at else ()), item.key)
        hit = next(each for each in self.statements if each.path[: len(path)] == path)
        return self._line(hit.start) + 1

    def matches(self, item: _Item) -> bool:
        entry = self.entry
        if self.is_array:
            return not entry.value
        value = toml_scan.read_value(entry.value) if "value" in entry.code else entry.value
        # Python has it that 1 == True == 1.0; for TOML these are three values.
        return type(item.content) is type(value) and item.content == value

    def check_entry(self) -> None:
        super().check_entry()
        if "value" in self.entry.code:
            try:
                toml_scan.read_value(self.entry.value)
            except tomllib.TOMLDecodeError as error:
                reason = f"{self.entry.value!r} is not a TOML value"
                raise self.refusal("registry_computed", 0, reason) from error

    def with_entry(self) -> bytes:
        return self._with_element() if self.is_array else self._with_key()

    def _with_element(self) -> bytes:
        array, keys = self._array, [item.key for item in self.items]
        if self.entry.value or None in keys:
            assert self.at is not None
            reason = f"{self.entry.table} is not an array of texts"
            raise self.refusal("registry_computed", self._line(self.at.start) + 1, reason)
        index = list_index([str(key) for key in keys], self.entry.key)
        first = array.items[0].start if array.items else 0
        quote = "'" if array.raw[first : first + 1] == b"'" else '"'
        gaps = (array.raw[a.after : b.start] for a, b in itertools.pairwise(array.items))
        # Comments above the first element head the array, unless others have some of their own.
        slot = Slot(index, not index and not any(map(own_line_comments, gaps)))
        element = _string(self.entry.key, quote).encode()
        return self._spliced(splicing.insertion(array, slot, element))

    def _with_key(self) -> bytes:
        rows = self._rows
        starts = [self._line(row.start) for row in rows]
        first = self._line(self.at.start) + 1 if self.at else 0
        if not rows:
            if self.at is None:
                reason = "there are no keys above the first table"
                raise self.refusal("registry_computed", 0, reason)
            return self.file.with_line(first, self._row(0))
        index = list_index([row.path[len(self.path)] for row in rows], self.entry.key)
        spans = [Span(n, self._line(row.end)) for n, row in zip(starts, rows, strict=True)]
        line = self.line_for(spans, index, first)
        return self.file.with_line(line, self._row(bisect.bisect(starts, line)))

    def _row(self, near: int) -> str:
        """Write the line as its neighbours are written: indentation, equals sign and quotes."""
        raw, rows, entry = self.raw, self._rows, self.entry
        if not rows:
            return _key(entry.key) + " = " + _value(entry, '"')
        # The neighbour above, or the first key where the line goes above all of them.
        row = rows[max(near - 1, 0)]
        assert row.value is not None
        indent = re.findall(r"[ \t]*\Z", raw[: row.start])[0]
        gaps = [_gap(raw, each) for each in rows]
        # One column, and more than one space in front of a sign: they are aligned on purpose.
        columns = {each.equals - each.start for each in rows}
        key = _key(entry.key) + _gap(raw, row)[:1]
        if len(columns) == 1 and max(map(len, gaps)) > 1:
            key = key.ljust(columns.pop())
        return indent + key + raw[row.equals : row.value] + _value(entry, raw[row.value])

    def without(self, hits: list[_Item]) -> bytes:
        if self.is_array:
            return self._spliced(splicing.removal(self._array, self.items.index(hits[0])))
        # `x.key = 1` below the same header ends in the name, and belongs to a table x.
        rows = [row for row in self._rows if row.path[-1] == self.entry.key and row.names == 1]
        line = self.line(hits[0]) - 1
        if not rows or self._line(rows[0].end) != line:
            reason = f"{self.entry.key!r} is not on a line of its own"
            raise self.refusal("registry_computed", line + 1, reason)
        return self.file.without_line(line)

    def _spliced(self, splices: Iterable[Splice]) -> bytes:
        return self.file.bom + spliced(self.raw.encode(), splices)

    def said(self, without: _Item | None = None) -> object:
        """Return the document; repr keeps 1, 1.0 and True apart, which == does not."""
        document = tomllib.loads(self.raw)
        content = self._content(document)
        if without is not None:
            del content[self.items.index(without) if self.is_array else without.key]
        return repr(document)


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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
