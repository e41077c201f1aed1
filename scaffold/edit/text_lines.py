"""Plain text: a line of a list, such as an entry of a ``toctree`` or a name in a ``.txt`` file.

``table`` is a whole line, without its indentation, below which the list begins: a comment, a
directive (``.. toctree::``), or an option of one (``:caption: Reference``), which tells several
directives apart. Options and blank lines below a directive are passed over, and its list goes on as
long as lines are indented. Any other list ends at a blank line. Without ``table`` the list is the
whole file, apart from blank lines and comments. ``key`` is the line; there is no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import (
    Span,
    Text,
    context_of,
    line_for,
    list_index,
    read_text,
    require_one_line,
)
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit

# reStructuredText: `.. toctree::`, and below it `:maxdepth: 2`.
_DIRECTIVE = re.compile(r"\.\. [\w:.+-]+::")
_OPTION = re.compile(r":[\w-]+:(?:\s|$)")
# `# ...` or a comment of reStructuredText (`.. text`); a line such as `#include::` is an entry.
_COMMENT = re.compile(r"\s*(?:#(?!\S*::)|\.\.(?:\s|$))")


@dataclass(frozen=True)
class _List:
    """A list: the numbers of its lines, and where and how a first one would stand."""

    text: Text
    numbers: tuple[int, ...]
    start: int
    indent: str

    def rows(self) -> list[str]:
        return [_collapsed(self.text.lines[number]) for number in self.numbers]

    def line_of(self, key: str) -> int | None:
        keys = self.rows()
        return self.numbers[keys.index(_collapsed(key))] if _collapsed(key) in keys else None


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the lines, each with an empty value."""
    return dict.fromkeys(_locate(data, entry, context_of(entry)).rows(), "")


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the line is there, whatever its spaces."""
    # Lines have no values, so an entry with one cannot be there.
    is_there = _locate(data, entry, context_of(entry)).line_of(entry.key) is not None
    return is_there and not entry.value


def text_to_add(entry: Entry) -> str:
    """Return the line."""
    return entry.key


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add a line at its sorted place, or below the others where they are not sorted."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    found = _locate(data, entry, context)
    present = found.line_of(entry.key)
    if present is not None:
        return Edit(data, present + 1)
    # What would be read back as a comment or an option is no entry, and would be added again on
    # every run.
    is_item = entry.key == entry.key.strip() and not _COMMENT.match(entry.key)
    if entry.value or not is_item or _OPTION.match(entry.key):
        raise context.refusal("registry_computed", 0, "the entry is not a line of a list")
    index = list_index([_target(key) for key in found.rows()], _target(entry.key))
    spans = [Span(number, number) for number in found.numbers]
    lines = found.text.lines
    line = line_for(spans, index, found.start, lambda at: bool(_COMMENT.match(lines[at])))
    # The neighbour's own indentation counts: tabs and odd widths are kept.
    near = found.numbers[max(index - 1, 0)] if found.numbers else None
    indent = found.indent if near is None else re.findall(r"^\s*", lines[near])[0]
    after = found.text.with_line(line, indent + entry.key)
    keys = found.rows()
    if _locate(after, entry, context).rows() != [
        *keys[:index],
        _collapsed(entry.key),
        *keys[index:],
    ]:
        raise context.refusal("registry_computed", line + 1, "the edited file reads differently")
    return Edit(after, line + 1)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the line out."""
    found = _locate(data, entry, context_of(entry))
    line = found.line_of(entry.key)
    return data if line is None else found.text.without_line(line)


def _target(line: str) -> str:
    """Return the page of ``Title <page>``; lists are sorted by pages."""
    found = re.search(r"<([^<>]+)>$", line)
    return found[1] if found else _collapsed(line)


def _collapsed(line: str) -> str:
    return " ".join(line.split())


def _locate(data: bytes, entry: Entry, context: Context) -> _List:
    text = read_text(data, context)
    if not entry.table:
        numbers = [
            n for n, line in enumerate(text.lines) if line.strip() and not _COMMENT.match(line)
        ]
        return _List(text, tuple(numbers), _below_head(text), "")
    wanted = _collapsed(entry.table)
    hits = [n for n, line in enumerate(text.lines) if _collapsed(line) == wanted]
    if not hits:
        raise context.refusal("registry_missing", 0, f"no line has {entry.table!r}")
    if len(hits) > 1:
        line = hits[1] + 1
        raise context.refusal("registry_computed", line, f"{entry.table!r} is there twice")
    # A list of reStructuredText ends where the indentation does, others at a blank line.
    if _DIRECTIVE.match(wanted) or _OPTION.match(wanted):
        return _under_directive(text, hits[0], context)
    return _under_marker(text, hits[0])


def _below_head(text: Text) -> int:
    """Return the line below the comments that a file without items begins with."""
    lines = text.lines
    return next((n for n, line in enumerate(lines) if not _COMMENT.match(line)), len(lines))


def _under_marker(text: Text, marker: int) -> _List:
    numbers: list[int] = []
    for number in range(marker + 1, len(text.lines)):
        line = text.lines[number]
        if not line.strip():
            break
        if not _COMMENT.match(line):
            numbers.append(number)
    indent = re.findall(r"^\s*", text.lines[marker])[0]
    return _List(text, tuple(numbers), marker + 1, indent)


def _under_directive(text: Text, marker: int, context: Context) -> _List:
    """Find the entries of a directive, by its first line or by one of its options."""
    lines = text.lines
    head = marker
    # The option names one of several directives; only options may lie between the two.
    while head >= 0 and not _DIRECTIVE.match(lines[head].lstrip()):
        if not _OPTION.match(lines[head].lstrip()):
            raise context.refusal("registry_computed", marker + 1, "the option has no directive")
        head -= 1
    if head < 0:
        raise context.refusal("registry_computed", marker + 1, "the option has no directive")
    depth = _depth(lines[head])
    below = head + 1
    while (
        below < len(lines) and _OPTION.match(lines[below].lstrip()) and _depth(lines[below]) > depth
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
        raise context.refusal("registry_computed", head + 1, reason)
    # An empty list has the indentation of the options above it, or four spaces.
    option = lines[below - 1] if below > head + 1 else " " * (depth + 4)
    return _List(text, tuple(numbers), below + 1, re.findall(r"^\s*", option)[0])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
