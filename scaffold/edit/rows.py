"""Entries as whole lines: rows go in among rows, and come out, blank lines and comments in mind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaffold.edit.layout import NEWLINE, Splice, line_start, newline_before
from scaffold.edit.layout import indent_at as indent


@dataclass(frozen=True)
class Row:
    """One entry as whole lines, the last line's end included."""

    start: int
    end: int


def insert_lines(raw: bytes, offset: int, lines: bytes) -> Splice:
    """Put whole lines at the start of a line, or behind a last line that has no line end.

    Args:
        raw: The text.
        offset: The start of a line, or the end of the text.
        lines: Lines that each end in ``\\n``; they get the line end of their place.
    """
    newline = newline_at(raw, offset)
    lines = lines.replace(b"\n", newline)
    if offset == len(raw) and raw and raw[-1:] not in b"\r\n":
        # The last line gets a line end, and the new last one has none: as before, the file ends
        # without.
        lines = newline + lines.removesuffix(newline)
    return Splice(offset, offset, lines)


def delete_lines(raw: bytes, start: int, end: int) -> Splice:
    """Take whole lines away, the inverse of `insert_lines`."""
    # The last line has no line end: the one above is taken, as `insert_lines` put it there.
    if end == len(raw) and raw[start:end] and raw[-1:] not in b"\r\n":
        start -= len(newline_at(raw, start)) if start else 0
    return Splice(start, end)


def insert_row(raw: bytes, rows: Sequence[Row], index: int, lines: bytes, gap: int) -> Splice:
    """Put lines among rows that are siblings; ``gap`` blank lines set them apart.

    The comments above the first row stay above all rows where they head the whole group.
    """
    if index:
        return insert_lines(raw, rows[index - 1].end, b"\n" * gap + lines)
    # Between rows that have comments of their own, those above the first are the first one's.
    start = rows[0].start
    if not _heads_all(raw, rows):
        start = attached_comments(raw, start)
    return insert_lines(raw, start, lines + b"\n" * gap)


def delete_row(raw: bytes, rows: Sequence[Row], index: int) -> Splice:
    """Take a row away with the blank lines that set it apart from its siblings."""
    row = rows[index]
    gap = common_gap(raw, [*rows[:index], *rows[index + 1 :]])
    start, end = row.start, row.end
    if index:
        start = blank_lines_above(raw, start, gap)
    else:
        end = blank_lines_below(raw, end, gap)
    return delete_lines(raw, start, end)


def common_gap(raw: bytes, rows: Sequence[Row]) -> int:
    """Return how many blank lines are between rows, at the least."""
    return min((count_blank_above(raw, row.start) for row in rows[1:]), default=0)


def _heads_all(raw: bytes, rows: Sequence[Row]) -> bool:
    """Return whether comments above the first row are about all of them."""
    gaps = [raw[a.end : b.start] for a, b in pairwise(rows)]
    return not any(b"#" in gap for gap in gaps)


def attached_comments(raw: bytes, start: int) -> int:
    """Return where the comments begin that are directly above a line; not those of a header."""
    offset = start
    while offset:
        above = line_start(raw, newline_before(raw, offset))
        if not raw[above:offset].strip().startswith(b"#"):
            return offset
        offset = above
    # Comments up to the first line are the header of the file.
    return start


def newline_at(raw: bytes, offset: int) -> bytes:
    """Return the line end in use at an offset: that of the line above, else of the file."""
    above = line_start(raw, offset)
    if above:
        return raw[newline_before(raw, above) : above]
    found = NEWLINE.search(raw)
    return found[0] if found else b"\n"


def line_after(raw: bytes, offset: int) -> int:
    """Return the start of the next line, or the end of the text."""
    found = NEWLINE.search(raw, offset)
    return found.end() if found else len(raw)


def count_blank_above(raw: bytes, start: int) -> int:
    count = 0
    while start:
        above = line_start(raw, newline_before(raw, start))
        if raw[above:start].strip():
            break
        start, count = above, count + 1
    return count


def blank_lines_above(raw: bytes, start: int, count: int) -> int:
    """Return where up to ``count`` blank lines above a line begin."""
    for _ in range(min(count, count_blank_above(raw, start))):
        start = line_start(raw, newline_before(raw, start))
    return start


def blank_lines_below(raw: bytes, end: int, count: int) -> int:
    """Return where up to ``count`` blank lines behind a line end."""
    for _ in range(count):
        after = line_after(raw, end)
        if raw[end:after].strip():
            break
        end = after
    return end


def with_inner_comments(raw: bytes, end: int, outer: bytes) -> int:
    """Return the end of a block with the comments that follow it, indented deeper than it."""
    offset = end
    while offset < len(raw):
        after = line_after(raw, offset)
        text = raw[offset:after]
        if text.strip():
            # With tabs expanded, so that a tab and eight spaces are equally deep.
            inner = len(indent(raw, offset).expandtabs()) > len(outer.expandtabs())
            if not (inner and text.strip().startswith(b"#")):
                break
            end = after
        offset = after
    return end


def last_line_end(raw: bytes) -> int:
    """Return the offset behind the last line that is not blank."""
    return line_after(raw, len(raw.rstrip()))
