"""The comments around generated text, and what is between them: text in, blocks out.

A block is ``<!-- scaffold:begin KIND words key=value -->``, its text and ``<!-- scaffold:end -->``,
each comment alone on its line. What is quoted inside a fence is no block.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from scaffold.analysis.lazy_re import lazy_re

KINDS = ("options", "output", "registry", "signature", "template", "tree")
"""What a block can hold."""

_BEGIN = lazy_re(r"^(?P<indent>[ \t]*)<!--\s*scaffold:begin\b(?P<rest>.*?)-->[ \t]*$")
_END = lazy_re(r"^[ \t]*<!--\s*scaffold:end\s*-->[ \t]*$")
# The beginning or end of a fence, in list items and quotations too: "- ```python".
_FENCE = lazy_re(r"^[ \t]*(?:[-*+>][ \t]+)*(?P<mark>`{3,}|~{3,})(?P<rest>.*)$")
_OPTION = lazy_re(r"(?P<name>[a-z_]+)=(?P<value>.*)", re.DOTALL)


class BlockError(ValueError):
    """A block asks for what is not there, or in the wrong way; the message names it."""


@dataclass(frozen=True)
class Block:
    """One generated block as it is in a document.

    Args:
        kind: One of KINDS, or what is there in its place.
        words: What follows the kind, in order.
        options: What is given as ``key=value``.
        line: The line of the opening comment, from 1.
        end_line: The line of the closing one; the last line of what is not closed.
        body: What is between them, without their indentation.
        indent: The indentation of the opening comment.
        problem: What is wrong with the comments, or "".
    """

    kind: str
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    line: int = 1
    end_line: int = 1
    body: str = ""
    indent: str = ""
    problem: str = ""

    @property
    def content(self) -> str:
        """The body without blank lines around it, which formatters add and take away."""
        return self.body.strip("\n")

    def listed(self, key: str) -> list[str]:
        """Return what an option names, between commas."""
        return [each for each in self.options.get(key, "").split(",") if each]

    def opening(self) -> str:
        pairs = [f"{name}={_quoted(value)}" for name, value in self.options.items()]
        words = [_quoted(word) for word in self.words]
        return " ".join(["<!-- scaffold:begin", self.kind, *words, *pairs, "-->"])


def parse_blocks(text: str) -> list[Block]:
    """Return every block of a document, those that are wrong with their problem."""
    found: list[Block] = []
    rows = text.replace("\r\n", "\n").split("\n")
    opened: Block | None = None
    fence = ""
    for number, row in enumerate(rows, start=1):
        # The rows that open and close a fence belong to it.
        was_fenced = bool(fence)
        fence = _fence_after(row, fence)
        if was_fenced or fence:
            continue
        opening = _BEGIN.match(row)
        if opening is not None:
            if opened is not None:
                found.append(_unclosed(opened, number - 1, f"the block of line {number} begins"))
            opened = _opened(opening, number)
        elif _END.match(row):
            if opened is None:
                problem = "scaffold:end without scaffold:begin before it"
                found.append(Block("", line=number, end_line=number, problem=problem))
            else:
                # A block inside a list item is indented with it; its text is compared without that.
                body = "\n".join(rows[opened.line : number - 1])
                found.append(replace(opened, end_line=number, body=textwrap.dedent(body)))
            opened = None
    if opened is not None:
        found.append(_unclosed(opened, len(rows), "the text ends"))
    return found


def replace_blocks(text: str, renewed: Iterable[tuple[Block, Block]]) -> str:
    """Return a document in which blocks are as they are to be."""
    ending = "\r\n" if "\r\n" in text else "\n"
    rows = text.replace("\r\n", "\n").split("\n")
    # From the bottom, so that the lines of blocks above stay as they were read.
    for old, new in sorted(renewed, key=lambda pair: -pair[0].line):
        body = textwrap.indent(new.content, old.indent).split("\n") if new.content else []
        # An opening comment that means the same keeps the spelling of its author.
        is_same = (old.words, old.options) == (new.words, new.options)
        opening = rows[old.line - 1] if is_same else old.indent + new.opening()
        rows[old.line - 1 : old.end_line - 1] = [opening, *body]
    return ending.join(rows)


def fenced(text: str, language: str) -> str:
    """Return text as a fenced block that nothing inside it can close."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text.rstrip()}\n{mark}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    cells = ([" ".join(each.split()).replace("|", "\\|") for each in row] for row in rows)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])


def _fence_after(row: str, fence: str) -> str:
    """Return the fence that is open behind a row; "" for none."""
    found = _FENCE.match(row)
    if found is None:
        return fence
    mark = found["mark"]
    if not fence:
        # CommonMark: no backtick follows on the row of a fence, so "```x```" is code inside a line.
        is_inline = mark[0] == "`" and "`" in found["rest"]
        return "" if is_inline else mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not found["rest"].strip()
    return "" if closes else fence


def _opened(opening: re.Match[str], line: int) -> Block:
    block = Block("", line=line, end_line=line, indent=opening["indent"])
    try:
        parts = shlex.split(opening["rest"])
    except ValueError as error:
        return replace(block, problem=f"the words of scaffold:begin cannot be split: {error}")
    if not parts:
        return replace(block, problem=f"scaffold:begin names no kind; known: {', '.join(KINDS)}")
    kind, *rest = parts
    pairs = [(word, _OPTION.fullmatch(word)) for word in rest]
    words = tuple(word for word, pair in pairs if pair is None)
    options = {pair["name"]: pair["value"] for _, pair in pairs if pair is not None}
    problem = "" if kind in KINDS else f"unknown kind {kind!r}; known: {', '.join(KINDS)}"
    return replace(block, kind=kind, words=words, options=options, problem=problem)


def _unclosed(block: Block, last: int, why: str) -> Block:
    problem = f"not closed by <!-- scaffold:end --> before {why}"
    return replace(block, end_line=last, problem=problem)


def _quoted(word: str) -> str:
    # Characters that shlex takes as they are; double quotes go around the rest.
    if re.fullmatch(r"[\w@%+=:,./*\[\]-]+", word):
        return word
    return '"' + re.sub(r'([\\"])', r"\\\1", word) + '"'
