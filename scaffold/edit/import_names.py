"""The names of one import statement: a name more, or one less, and no other byte."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from scaffold.edit.layout import (
    TAIL,
    Splice,
    begins_line,
    indent_at,
    line_start,
    newline_before,
    skip_layout,
)
from scaffold.edit.rows import newline_at
from scaffold.edit.statements import Script, sorted_index


@dataclass(frozen=True)
class _Name:
    """One imported name; ``comma`` is the offset of the comma behind it, if there is one."""

    key: str
    start: int
    end: int
    comma: int | None

    @property
    def after(self) -> int:
        return self.end if self.comma is None else self.comma + 1


def insertion(script: Script, node: ast.Import | ast.ImportFrom, key: str) -> list[Splice]:
    """Put a name at its sorted place, or behind the last one."""
    raw, names = script.raw, _names(script, node)
    text = key.encode()
    index = sorted_index([name.key for name in names], key)
    if index == len(names):
        return _at_end(raw, names[-1], text, _is_wrapped(script, node))
    name = names[index]
    if not (_is_wrapped(script, node) and begins_line(raw, name.start)):
        # The next name shares its line with others, and so does the new one.
        return [Splice(name.start, name.start, text + b", ")]
    # Below the line of the name before it: comments above the next name stay with that.
    tail = TAIL.match(raw, names[index - 1].after) if index else None
    start = tail.end() if tail else line_start(raw, name.start)
    line = indent_at(raw, name.start) + text + b"," + newline_at(raw, start)
    return [Splice(start, start, line)]


def removal(script: Script, node: ast.Import | ast.ImportFrom, index: int) -> list[Splice]:
    """Take a name away that is not the only one; the inverse of `insertion`."""
    raw, names = script.raw, _names(script, node)
    name, is_last = names[index], index == len(names) - 1
    splices: list[Splice] = []
    # Without a comma behind the last name there is none behind the new last one either.
    if is_last and name.comma is None:
        comma = names[index - 1].comma
        assert comma is not None
        splices.append(Splice(comma, comma + 1))
    if _is_wrapped(script, node) and begins_line(raw, name.start):
        tail = TAIL.match(raw, name.after)
        if tail:
            return [*splices, Splice(line_start(raw, name.start), tail.end())]
        if is_last:
            # The bracket closes behind the name: the line end above goes, not the one behind.
            return [*splices, Splice(newline_before(raw, name.start), name.after)]
    if is_last:
        return [*splices, Splice(names[index - 1].after, name.after)]
    following = names[index + 1].start
    between = raw[name.after : following]
    return [Splice(name.start, following if not between.strip(b" \t") else name.after)]


def _at_end(raw: bytes, last: _Name, text: bytes, is_wrapped: bool) -> list[Splice]:
    # A list without a last comma keeps that habit: the comma moves on, and removal moves it back.
    text, comma = (text, b",") if last.comma is None else (text + b",", b"")
    if is_wrapped and begins_line(raw, last.start):
        indent = indent_at(raw, last.start)
        tail = TAIL.match(raw, last.after)
        if tail:
            line = Splice(tail.end(), tail.end(), indent + text + tail[1])
            return [Splice(last.end, last.end, comma), line]
        newline = newline_at(raw, last.start)
        return [Splice(last.after, last.after, comma + newline + indent + text)]
    return [Splice(last.after, last.after, comma + b" " + text)]


def _names(script: Script, node: ast.Import | ast.ImportFrom) -> list[_Name]:
    names: list[_Name] = []
    for alias in node.names:
        key = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
        end = script.end(alias)
        comma = skip_layout(script.raw, end)
        has_comma = script.raw[comma : comma + 1] == b","
        names.append(_Name(key, script.start(alias), end, comma if has_comma else None))
    return names


def _is_wrapped(script: Script, node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether parentheses let the names stand on lines of their own."""
    return b"(" in script.raw[script.start(node) : script.start(node.names[0])]
