"""Admonitions as MkDocs, MyST, Docusaurus and GitHub write them, which CommonMark lacks.

They become plain Markdown of as many lines, so that their content is read as text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from scaffold.translation.page import Piece

# MkDocs: `!!! note "Title"`, `??? tip`, and the tabs `=== "Linux"`.
_INDENTED = re.compile(
    r"^(?P<gap> *)(?:!!!|\?\?\?\+?)[ \t]*(?P<sort>[\w-]+)|^(?P<tab> *)===[+!]*[ \t]+\""
)
# `::: tip` and MyST's `:::{note}`; then `/// note | Title`, of pymdownx.
_COLONS = re.compile(r"^ *(?P<mark>:{3,})[ \t]*\{?(?P<sort>[A-Za-z][\w:-]*)\}?")
_SLASHES = re.compile(r"^ *(?P<mark>/{3,})[ \t]+(?P<sort>[a-z][\w-]*)(?:[ \t]*\|.*)?[ \t]*$")
_END = re.compile(r"^ *(?::{3,}|/{3,})[ \t]*$")
_FENCE = re.compile(r"^ *(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
# `:class: dropdown`, below the first line of a directive.
_OPTION = re.compile(r"^ *:[\w-]+:(?:[ \t].*)?$")
# `> [!NOTE]`, as GitHub writes it.
_ALERT = re.compile(r"^ *> ?\[!(?P<sort>\w+)\]")
# Directives whose content is text that is translated.
_OF_PROSE = frozenset({
    "admonition", "attention", "caution", "danger", "error", "hint", "important", "note", "seealso",
    "tip", "warning", "dropdown", "tab-item", "tab-set", "grid", "grid-item", "card", "margin",
    "sidebar", "epigraph", "details", "versionadded", "versionchanged", "deprecated", "topic",
})  # fmt: skip


class Plain(NamedTuple):
    """A text without admonitions, and the admonitions: what sort, at which line from 0."""

    lines: list[str]
    admonitions: list[Piece]


def plain_lines(lines: list[str]) -> Plain:
    """Turn admonitions into the text inside them, line for line."""
    # A copy, as the reader blanks lines in place to keep their numbers.
    reader = _Reader(list(lines))
    reader.read(0, len(lines))
    return Plain(reader.lines, sorted(reader.found, key=lambda piece: piece.line))


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.found: list[Piece] = []

    def read(self, start: int, stop: int) -> None:
        at = start
        while at < stop:
            row = self.lines[at]
            if fence := _FENCE.match(row):
                at = self._fence(at, stop, fence["mark"], fence["info"].strip())
            elif indented := _INDENTED.match(row):
                at = self._indented(at, stop, indented)
            elif opening := _COLONS.match(row) or _SLASHES.match(row):
                self._take(at, opening["sort"])
                at = self._options(at + 1, stop)
            elif _END.match(row):
                self.lines[at] = ""
                at += 1
            else:
                if alert := _ALERT.match(row):
                    self.found.append(Piece(alert["sort"].lower(), at))
                at += 1

    def _fence(self, start: int, stop: int, mark: str, info: str) -> int:
        """Return the line behind a fence; one with prose is opened up."""
        # CommonMark: a closing fence is at least as long as the opening one.
        close = re.compile(rf"^ *{mark[0]}{{{len(mark)},}}[ \t]*$")
        end = next((at for at in range(start + 1, stop) if close.match(self.lines[at])), stop)
        sort = re.match(r"\{([\w:-]+)\}", info)
        # Other directives hold code or data, which stays closed.
        if sort and sort[1] in _OF_PROSE:
            self._take(start, sort[1])
            if end < stop:
                self.lines[end] = ""
            self.read(self._options(start + 1, end), end)
        return end + 1

    def _indented(self, start: int, stop: int, found: re.Match[str]) -> int:
        """Return the line behind an admonition whose text is indented by four."""
        gap = len(found["gap"] if found["gap"] is not None else found["tab"])
        self._take(start, found["sort"] or "tab")
        end = start + 1
        while end < stop:
            row = self.lines[end]
            # A blank line does not end the block.
            if row.strip() and len(row) - len(row.lstrip(" ")) < gap + 4:
                break
            # With its four blanks Markdown would read the text as code.
            self.lines[end] = row[:gap] + row[gap + 4 :]
            end += 1
        self.read(start + 1, end)
        return end

    def _options(self, start: int, stop: int) -> int:
        at = start
        while at < stop and _OPTION.match(self.lines[at]):
            self.lines[at] = ""
            at += 1
        return at

    def _take(self, at: int, sort: str) -> None:
        self.found.append(Piece(sort, at))
        self.lines[at] = ""
