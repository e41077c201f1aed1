"""How an element is written into brackets and taken out again: splices that touch one line.

The brackets are those of a literal, of an import's names, or of an array of TOML. What follows the
last element, comments too, belongs to the closing one. Brackets over several lines gain one line,
and a last element without a comma stays one without; brackets on one line grow on that line, and so
does a row of several where the element belongs into it. Removal undoes exactly this.
"""

from __future__ import annotations

import ast
import re

from scaffold.edit.forms import EMPTY_CALLS, Literal, callee
from scaffold.edit.layout import (
    NEWLINE,
    TAIL,
    Brackets,
    Splice,
    begins_line,
    column_pad,
    indent_at,
    line_start,
    newline_before,
)
from scaffold.edit.placing import Slot


class LayoutError(Exception):
    """An entry cannot be put in or taken out without loss; the text gives the reason."""


def insertion(brackets: Brackets, slot: Slot, entry: bytes) -> list[Splice]:
    """Return what puts an entry into its slot.

    Args:
        literal: The brackets.
        slot: Where in it.
        entry: The entry's text, without comma.

    Raises:
        LayoutError: A comment would be lost by it.
    """
    if not brackets.items:
        return [_into_empty(brackets, entry)]
    if _commas_lead(brackets):
        return [_with_leading_comma(brackets, slot.index, entry)]
    if slot.index < len(brackets.items):
        return _before(brackets, slot, entry)
    return _at_end(brackets, entry)


def removal(brackets: Brackets, index: int) -> list[Splice]:
    """Return what takes an entry out.

    Raises:
        LayoutError: A comment would be lost with it.
    """
    raw, items, item = brackets.raw, brackets.items, brackets.items[index]
    # A set without its only entry would be `{}`, a dict.
    if len(items) == 1 and isinstance(brackets, Literal) and _collapses(brackets):
        return [_collapse(brackets)]
    if index and _commas_lead(brackets):
        lead, tail = items[index - 1].after - 1, TAIL.match(raw, item.end)
        if tail is None:  # the closing bracket follows it
            return [Splice(newline_before(raw, lead), item.end)]
        return [Splice(line_start(raw, lead), tail.end())]
    # The comma is behind another entry, so that this splice never overlaps the next ones.
    splices = _comma_left_over(brackets, index)
    is_last = index == len(items) - 1
    tail = None if brackets.is_bare else TAIL.match(raw, item.after)
    if begins_line(raw, item.start) and tail:
        return [*splices, Splice(line_start(raw, item.start), tail.end())]
    # The bracket closes on the same line: the line end above goes, not the one behind.
    if begins_line(raw, item.start) and is_last and not brackets.is_bare:
        return [*splices, Splice(newline_before(raw, item.start), item.after)]
    if not is_last:
        # Blanks up to the next entry go too, but not a comment or a line end with it.
        following = items[index + 1].start
        end = following if not raw[item.after : following].strip() else item.after
        return [*splices, Splice(item.start, end)]
    start = items[index - 1].after if index else item.start
    return [*splices, Splice(start, item.after)]


# ---- into a literal ------------------------------------------------------------------------------


def _into_empty(brackets: Brackets, entry: bytes) -> Splice:
    raw = brackets.raw
    is_literal = isinstance(brackets, Literal)
    if is_literal and brackets.kind == "call":
        return _into_empty_call(brackets, entry)
    newlines = list(NEWLINE.finditer(raw, brackets.inside, brackets.close))
    if not newlines:
        # A comma distinguishes `list([])` from `list()` when the entry is taken out again.
        needs_comma = is_literal and (_is_wrapped(brackets) or brackets.kind == "tuple")
        comma = b"," if needs_comma else b""
        return Splice(brackets.inside, brackets.inside, entry + comma)
    start = newlines[-1].end()
    # An empty literal may hold comments only, which then show the indentation.
    comments = re.findall(rb"^([ \t]*)#", raw[newlines[0].end() : start], re.MULTILINE)
    indent = comments[-1] if comments else indent_at(raw, brackets.close) + brackets.unit
    return Splice(start, start, indent + entry + b"," + newlines[-1][0])


def _into_empty_call(literal: Literal, entry: bytes) -> Splice:
    if literal.inside != literal.close:
        raise LayoutError("something is in an empty call")
    name = callee(literal.node) if isinstance(literal.node, ast.Call) else ""
    # `{}` is a dict: the whole call becomes the literal, and `_collapse` turns it back.
    if name == "set":
        start, end = literal.file.start(literal.node), literal.close + 1
        return Splice(start, end, b"{" + entry + b"}")
    opening, closing = (b"{", b"}") if name == "frozenset" else (b"[", b"]")
    return Splice(literal.inside, literal.close, opening + entry + closing)


def _before(brackets: Brackets, slot: Slot, entry: bytes) -> list[Splice]:
    raw, items, index = brackets.raw, brackets.items, slot.index
    item = items[index]
    # A tail is the rest of a line without code: only then does an entry have lines of its own.
    tail = TAIL.match(raw, items[index - 1].after if index else brackets.inside)
    if tail and not brackets.is_bare:
        start = line_start(raw, item.start) if slot.is_below_comments else tail.end()
        return [Splice(start, start, indent_at(raw, item.start) + entry + b"," + tail[1])]
    # The first entry is behind the bracket and the others are below it, aligned: `X = ["a",` with
    # `     "b"]` on the next line.
    newline = NEWLINE.search(raw, item.after, items[1].start if len(items) > 1 else brackets.close)
    if index == 0 and newline and not brackets.is_bare:
        pad = column_pad(raw, item.start)
        return [Splice(item.start, item.start, entry + b"," + newline[0] + pad)]
    front = Splice(item.start, item.start, entry + b", ")
    return [front, *_without_lone_comma(brackets)]


def _without_lone_comma(brackets: Brackets) -> list[Splice]:
    """Drop the comma that only a tuple of one needs."""
    item = brackets.items[0]
    is_lone = _is_tuple(brackets) and len(brackets.items) == 1
    if is_lone and item.comma == item.end and brackets.close == item.after:
        return [Splice(item.end, item.after)]
    return []


def _at_end(brackets: Brackets, entry: bytes) -> list[Splice]:
    raw, last = brackets.raw, brackets.items[-1]
    # A literal without a last comma stays one: the comma moves on, and removal moves it back.
    text, comma = (entry, b",") if last.comma is None else (entry + b",", b"")
    tail = None if brackets.is_bare else TAIL.match(raw, last.after)
    if tail:
        line = Splice(tail.end(), tail.end(), indent_at(raw, last.start) + text + tail[1])
        return [Splice(last.end, last.end, comma), line]
    newline = _newline_between(brackets)
    if newline and not brackets.is_bare:
        indent = indent_at(raw, last.start)
        return [Splice(last.after, last.after, comma + newline + indent + text)]
    if _is_tuple(brackets) and len(brackets.items) == 1:
        text = entry
    return [Splice(last.after, last.after, comma + b" " + text)]


def _newline_between(brackets: Brackets) -> bytes | None:
    """Return the line end that the last line with an entry begins after, if it has its own."""
    raw, items = brackets.raw, brackets.items
    on_line = line_start(raw, items[-1].start)
    # Several entries to a line: the line's first one shows whether the line is theirs alone.
    first = next(item for item in items if item.start >= on_line)
    newline = NEWLINE.search(raw, brackets.inside, first.start)
    return newline[0] if newline and begins_line(raw, first.start) else None


# ---- commas in front -----------------------------------------------------------------------------


def _commas_lead(brackets: Brackets) -> bool:
    """Return whether every entry but the first follows a comma that begins its line."""
    raw = brackets.raw
    return len(brackets.items) > 1 and all(
        begins_line(raw, item.after - 1)
        and TAIL.match(raw, item.end)
        and not TAIL.match(raw, item.after)
        for item in brackets.items[:-1]
    )


def _with_leading_comma(brackets: Brackets, index: int, entry: bytes) -> Splice:
    raw, items = brackets.raw, brackets.items
    comma = items[0].comma
    assert comma is not None
    # The comma with its indentation and what is between it and the entry: `    , `.
    lead = indent_at(raw, comma) + b","
    lead += raw[comma + 1 : items[1].start]
    if index == 0:
        newline = NEWLINE.search(raw, items[0].end)
        assert newline is not None
        return Splice(items[0].start, items[0].start, entry + newline[0] + lead)
    tail = TAIL.match(raw, items[index - 1].end)
    if tail is None:  # the closing bracket follows the last entry
        end, newline = items[index - 1].end, NEWLINE.search(raw, items[0].end)
        assert newline is not None
        return Splice(end, end, newline[0] + lead + entry)
    return Splice(tail.end(), tail.end(), lead + entry + tail[1])


# ---- out of a literal ----------------------------------------------------------------------------


def _comma_left_over(brackets: Brackets, index: int) -> list[Splice]:
    """Move the last comma back, or give a tuple of one the comma that it needs."""
    items, item = brackets.items, brackets.items[index]
    # `("a")` is a string.
    is_tuple_of_one = _is_tuple(brackets) and len(items) == 2
    if is_tuple_of_one:
        other = items[1 - index]
        return [Splice(other.end, other.end, b",")] if other.comma is None else []
    before = items[index - 1] if index else None
    if index == len(items) - 1 and item.comma is None and before is not None:
        assert before.comma is not None
        return [Splice(before.comma, before.comma + 1)]
    return []


def _collapses(literal: Literal) -> bool:
    """Return whether the literal without its only entry would be none of its kind."""
    if literal.kind == "set":
        return True
    # `list(["a"])` without a comma is what `_into_empty_call` makes of `list()`.
    is_inline = not NEWLINE.search(literal.raw, literal.inside, literal.close)
    return _is_wrapped(literal) and is_inline and literal.items[0].comma is None


def _is_wrapped(literal: Literal) -> bool:
    return literal.kind == "list" and callee(literal.outer) in ("list", "tuple")


def _is_tuple(brackets: Brackets) -> bool:
    return isinstance(brackets, Literal) and brackets.kind == "tuple"


def _collapse(literal: Literal) -> Splice:
    file, item = literal.file, literal.items[0]
    # The call that takes the place of the brackets has no room for a comment.
    if b"#" in literal.raw[literal.inside : item.start] + literal.raw[item.end : literal.close]:
        raise LayoutError("it is the only entry, and there are comments next to it")
    start, end = file.start(literal.node), file.end(literal.node)
    return Splice(start, end, b"" if callee(literal.outer) in EMPTY_CALLS else b"set()")
