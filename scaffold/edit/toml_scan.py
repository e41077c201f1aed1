"""Where the statements of a TOML file and the elements of its arrays begin and end.

The text has been read by the standard library before: what is scanned here is valid TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaffold.edit.layout import Element

_LAYOUT = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
# Up to two quotes may come directly before the three that close a text of several lines.
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|' r"'''.*?'{3,5}(?!')|" r'"(?:[^"\\]|\\.)*"|' r"'[^']*'",
    re.DOTALL,
)
# A number, date or truth value, up to what may follow it: `1_000`, `1979-05-27 07:32:00`.
_BARE = re.compile(r"[^,\]}\r\n#]+")
# One name of a dotted key, bare or quoted.
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
# `[a.b]` or `[[a."b.c"]]`.
_HEADER = re.compile(rf"(\[\[?)[ \t]*({_KEY.pattern})[ \t]*\]\]?")


@dataclass(frozen=True)
class Statement:
    """A table header or a key with its value.

    Args:
        path: The full path of the table or of the value.
        names: How many of the path's names the statement itself spells.
        start: The offset of its first character.
        end: The offset behind its last one.
        equals: The offset of the equals sign; that of the last character for a header.
        value: The offset of the value; None for a header.
        is_in_array: Whether it belongs to an array of tables.
    """

    path: tuple[str, ...]
    names: int
    start: int
    end: int
    equals: int
    value: int | None
    is_in_array: bool


def key_path(source: str) -> tuple[str, ...]:
    """Split a dotted key into its names; a text that is no key is one name."""
    if not _KEY.fullmatch(source):
        return (source,)
    parts = re.findall(_PART, source)
    # tomllib resolves the quotes and escapes of each name.
    return tuple(tomllib.loads(f"{part} = 0").popitem()[0] for part in parts)


def read_value(source: str) -> Any:
    """Return the value of a piece of TOML source.

    Raises:
        tomllib.TOMLDecodeError: It is no value.
    """
    return tomllib.loads(f"value = {source}")["value"]


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a file in order."""
    table: tuple[str, ...] = ()
    arrays: set[tuple[str, ...]] = set()
    offset = skip_layout(text, 0)
    while offset < len(text):
        header = _HEADER.match(text, offset)
        if header:
            table, end, value = key_path(header[2]), header.end(), None
            equals = end - 1
            path, names = table, len(table)
            if header[1] == "[[":
                arrays.add(table)
        else:
            key = _KEY.match(text, offset)
            assert key is not None, "the text is valid TOML"
            own = key_path(key[0])
            path, names = table + own, len(own)
            # A quoted key may hold an equals sign, so it is looked for behind the key.
            equals = text.index("=", key.end())
            value = skip_layout(text, equals + 1)
            end = value_end(text, value)
        # `[a.b]` below `[[a]]` belongs to an element of the array, too.
        is_in_array = any(table[:n] in arrays for n in range(1, len(table) + 1))
        yield Statement(path, names, offset, end, equals, value, is_in_array)
        offset = skip_layout(text, end)


def skip_layout(text: str, offset: int) -> int:
    """Return the offset of the next character that is no whitespace and in no comment."""
    found = _LAYOUT.match(text, offset)
    assert found is not None
    return found.end()


def value_end(text: str, offset: int) -> int:
    """Return the offset behind a value."""
    if text[offset] in "[{":
        return brackets(text, offset)[1] + 1
    found = _STRING.match(text, offset) or _BARE.match(text, offset)
    assert found is not None, "the text is valid TOML"
    # A bare value is matched up to the next comma or comment, with the blanks in between.
    return found.start() + len(found[0].rstrip())


def brackets(text: str, offset: int) -> tuple[tuple[Element, ...], int]:
    """Return the parts between a bracket's commas, and the offset of the closing bracket."""
    # An inline table has pairs between its commas; the key is passed to get at the value.
    is_table = text[offset] == "{"
    parts: list[Element] = []
    offset = skip_layout(text, offset + 1)
    while text[offset] not in "]}":
        start = offset
        if is_table:
            key = _KEY.match(text, offset)
            assert key is not None, "the text is valid TOML"
            offset = skip_layout(text, text.index("=", key.end()) + 1)
        end = value_end(text, offset)
        offset = skip_layout(text, end)
        comma = offset if text[offset] == "," else None
        parts.append(Element(start, end, comma))
        offset = offset if comma is None else skip_layout(text, offset + 1)
    return tuple(parts), offset
