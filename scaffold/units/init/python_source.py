"""A Python text of one unit: its statements, the pieces of its code, and what is cut out of it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from scaffold.syntax import parse
from scaffold.units.init.spellings import Evidence, Name, Piece, Seen, canon, pieces_between

_HEADER = re.compile(r"\A(?:#![^\n]*\n)?\s*((?:#[^\n]*(?:\n|\Z))*)")


class Cut(NamedTuple):
    """A part of a text that is left out, and what is there instead.

    ``is_own`` means that the instead is of the unit's text, in which its name has to be found.
    """

    start: int
    end: int
    instead: str = ""
    is_own: bool = False


@dataclass
class Consensus:
    """What of a text is the kind's.

    Args:
        cuts: What is not, in order and apart from each other.
        evidence: What the other units have in the places of the name.
        is_whole: Whether everything is.
    """

    cuts: list[Cut] = field(default_factory=list[Cut])
    evidence: Evidence = field(default_factory=dict[int, list[Seen]])

    def apply(self, text: str) -> str:
        """Return a text without what is not the kind's."""
        parts: list[str] = []
        last = 0
        for cut in self.cuts:
            parts += [text[last : cut.start], cut.instead]
            last = cut.end
        return "".join([*parts, text[last:]])


class Source:
    """A Python text of one unit.

    Raises:
        SyntaxError: The text is no Python.
        ValueError: The text holds what no source may hold.
    """

    def __init__(self, text: str, name: Name) -> None:
        self.text = text
        self.name = name
        self.tree = parse(text)
        self._lines = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
        self.comments = [
            (self._at(each.start), self._at(each.end))
            for each in tokens
            if each.type == tokenize.COMMENT
        ]

    @cached_property
    def header(self) -> tuple[int, int]:
        """Where the comment on top of the file is, after a line for the system."""
        found = _HEADER.match(self.text)
        return found.span(1) if found else (0, 0)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The pieces of the code: without comments, and without the commas before a bracket."""
        starts = [start for start, _ in self.comments]
        found: list[Piece] = []
        for piece in self.name.pieces(self.text):
            index = bisect_right(starts, piece.start) - 1
            if index >= 0 and piece.start < self.comments[index][1]:
                continue
            if piece.text in (")", "]", "}") and found and found[-1].text == ",":
                found.pop()
            found.append(piece)
        return found

    def _at(self, place: tuple[int, int]) -> int:
        return self._lines[place[0] - 1] + place[1]

    def offset(self, line: int, column: int) -> int:
        """Return an offset in the text; `ast` counts columns in UTF-8 bytes."""
        start = self._lines[line - 1]
        if self.text.isascii():
            return start + column
        # A character has a byte at least: what is behind as many of them need not be encoded.
        before = self.text[start : start + column].encode()[:column]
        return start + len(before.decode("utf-8", "ignore"))

    def span(self, node: Any) -> tuple[int, int]:
        """Return where a statement or an expression is, decorators included."""
        marks = getattr(node, "decorator_list", [])
        first = min([node, *marks], key=lambda each: each.lineno)
        start = self.offset(first.lineno, first.col_offset)
        # The sign of a decorator comes before its expression.
        start = self.text.rfind("@", 0, start) if marks and first is not node else start
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def pieces_of(self, node: Any) -> Sequence[Piece]:
        """Return the pieces of a statement or an expression."""
        return pieces_between(self.pieces, *self.span(node))

    def canon(self, node: ast.AST | str) -> str:
        """Return what counterparts in other units are equal in."""
        return canon(self.name.pieces(node) if isinstance(node, str) else self.pieces_of(node))

    def indent(self, node: ast.AST) -> str:
        """Return what comes before a statement on its line."""
        start = self.span(node)[0]
        return self.text[self.line_start(start) : start]

    def line_start(self, at: int) -> int:
        """Return where the line of an offset begins."""
        return self._lines[bisect_right(self._lines, at) - 1]

    def line_end(self, at: int) -> int:
        """Return where the next line begins."""
        index = bisect_right(self._lines, at)
        return self._lines[index] if index < len(self._lines) else len(self.text)

    def whole(self, node: ast.AST) -> tuple[int, int]:
        """Return the lines of a statement, with the comments and blank lines above it.

        The comment on top of the file is that of the file.
        """
        start, end = self.span(node)
        start = self.line_start(start)
        indent = self.text[start : self.span(node)[0]]
        while start > self.header[1]:
            above = self.line_start(start - 1)
            row = self.text[above:start]
            is_comment = row.startswith(f"{indent}#")
            if row.strip() and not is_comment:
                break
            start = above
        return start, self.line_end(end)


def apart(cuts: Iterable[Cut]) -> list[Cut]:
    """Return cuts in order; one inside of another goes with it."""
    found: list[Cut] = []
    for cut in sorted(cuts, key=lambda each: (each.start, -each.end)):
        if found and cut.start < found[-1].end:
            if cut.end > found[-1].end:
                found[-1] = found[-1]._replace(end=cut.end)
            continue
        found.append(cut)
    return found
