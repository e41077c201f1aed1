"""How an element is written into a TOML array and taken out again, by splices into the text.

An array over several lines gains one line, one on a single line grows there. What follows the last
element, comments too, belongs to the closing bracket; an array without a last comma keeps that
habit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.toml_scan import Element

# What may follow an element on its line: blanks and a comment.
_TAIL = re.compile(r"[ \t]*(?:#[^\r\n]*)?(\r\n|\n)")
_NEWLINE = re.compile(r"\r\n|\n")


@dataclass(frozen=True)
class Array:
    """An array in a text: ``inside`` is the offset behind ``[``, ``close`` that of ``]``."""

    text: str
    inside: int
    close: int
    elements: tuple[Element, ...]


def with_element(array: Array, index: int, source: str) -> str:
    """Return the text with one element more."""
    if not array.elements:
        splices = [_into_empty(array, source)]
    elif index < len(array.elements):
        splices = [_before(array, index, source)]
    else:
        splices = _at_end(array, source)
    return _spliced(array.text, splices)


def without_element(array: Array, index: int) -> str:
    """Return the text with one element less."""
    text, elements, element = array.text, array.elements, array.elements[index]
    before = elements[index - 1] if index else None
    is_last = index == len(elements) - 1
    splices: list[tuple[int, int, str]] = []
    if is_last and element.comma is None and before is not None:
        assert before.comma is not None
        # Without a comma behind the last element there is none behind the new last one either.
        splices.append((before.comma, before.comma + 1, ""))
    tail = _TAIL.match(text, element.after)
    if _begins_line(text, element.start) and tail:
        splices.append((_line_start(text, element.start), tail.end(), ""))
    # The bracket closes on the element's line and moves up to the one above.
    elif _begins_line(text, element.start) and is_last:
        splices.append((_newline_before(text, element.start), element.after, ""))
    elif is_last:
        start = element.start if before is None else before.after
        splices.append((start, element.after, ""))
    else:
        following = elements[index + 1].start
        # A comment between the two elements stays.
        is_free = not text[element.after : following].strip()
        splices.append((element.start, following if is_free else element.after, ""))
    return _spliced(text, splices)


def _into_empty(array: Array, source: str) -> tuple[int, int, str]:
    text = array.text
    newlines = list(_NEWLINE.finditer(text, array.inside, array.close))
    if not newlines:
        return array.inside, array.inside, source
    start = newlines[-1].end()
    comments = re.findall(r"^([ \t]*)#", text[newlines[0].end() : start], re.MULTILINE)
    unit = "\t" if re.search(r"^\t", text, re.MULTILINE) else "    "
    indent = comments[-1] if comments else _indent(text, array.close) + unit
    return start, start, indent + source + "," + newlines[-1][0]


def _before(array: Array, index: int, source: str) -> tuple[int, int, str]:
    text, element = array.text, array.elements[index]
    tail = _TAIL.match(text, array.elements[index - 1].after if index else array.inside)
    if not tail:
        return element.start, element.start, source + ", "
    # Comments above the first element head the array, unless other elements have some of their own.
    is_below = not index and not _have_comments(array)
    start = _line_start(text, element.start) if is_below else tail.end()
    return start, start, _indent(text, element.start) + source + "," + tail[1]


def _have_comments(array: Array) -> bool:
    """Return whether elements have comments above them, so that the first one's is its own."""
    gaps = [array.text[a.after : b.start] for a, b in itertools.pairwise(array.elements)]
    return any(re.search(r"\n[ \t]*#", gap) for gap in gaps)


def _at_end(array: Array, source: str) -> list[tuple[int, int, str]]:
    text, last = array.text, array.elements[-1]
    # Without a last comma the array stays without: the comma goes behind the element that was last.
    source, comma = (source, ",") if last.comma is None else (source + ",", "")
    indent = _indent(text, last.start)
    tail = _TAIL.match(text, last.after)
    if tail:
        return [(last.end, last.end, comma), (tail.end(), tail.end(), indent + source + tail[1])]
    newline = _NEWLINE.search(text, array.inside, last.start)
    if newline and _begins_line(text, last.start):
        return [(last.after, last.after, comma + newline[0] + indent + source)]
    return [(last.after, last.after, comma + " " + source)]


def _spliced(text: str, splices: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(splices, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _newline_before(text: str, offset: int) -> int:
    start = _line_start(text, offset)
    return start - 2 if text[start - 2 : start] == "\r\n" else start - 1


def _begins_line(text: str, offset: int) -> bool:
    return not text[_line_start(text, offset) : offset].strip()


def _indent(text: str, offset: int) -> str:
    found = re.compile(r"[ \t]*").match(text, _line_start(text, offset))
    assert found is not None
    return found[0]
