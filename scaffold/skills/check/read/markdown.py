"""The parts of a Markdown text that can hold claims, with the lines and columns they are at.

markdown-it finds the blocks, as CommonMark and GitHub's tables have them; the spans inside a block
are found here, since no parser gives their columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from scaffold.analysis.files.markdown import parse_tokens, token_line
from scaffold.analysis.lazy_re import lazy_re

if TYPE_CHECKING:
    from markdown_it.token import Token

NEAR = 1_000
"""So many characters of a paragraph are kept around a span: no sentence is longer."""

_SIDE = 400
"""So many beside words that no mark sets off."""

BlockKind = Literal["heading", "paragraph", "item", "cell", "fence", "indented", "html"]

_CODE_SPAN = lazy_re(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)", re.DOTALL)
_LINK = lazy_re(
    r"(?P<image>!?)\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\]"
    r"\(\s*(?P<to><[^<>\n]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)"
)
_HTML_LINK = lazy_re(
    r"<(?:a|img)\s(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?(?<![\w-])(?:href|src)\s*=\s*"
    r"(?P<sign>[\"'])(?P<to>[^\"'<>]*)(?P=sign)",
    re.IGNORECASE,
)
_HTML_COMMENT = lazy_re(r"<!--.*?-->", re.DOTALL)
_DEFINITION = lazy_re(r"^ {0,3}\[(?P<label>[^\]^][^\]]*)\]:\s*(?P<to><[^<>]*>|\S+)")
_FENCE = lazy_re(r"^[ \t>]*(?P<mark>`{3,}|~{3,})")


class Block(NamedTuple):
    """A heading, paragraph, list item, cell of a table or fenced code.

    Args:
        kind: What it is.
        line: Its first line, from 1; for a fence the line after the opening one.
        text: Its lines without the indentation of the list it is in.
        info: The language of a fence, or the column heading of a cell.
        headings: The headings it is under, the outermost first.
        row: The cells of the same row of a table.
        lead: The text of the block before it, which often introduces a fence.
        intros: What introduces the lists that it is in, the outermost first; of a cell, too,
            what introduces its table, and the titles of all columns.
        is_closed: Whether a fence ends before the text does.
        opens_item: Whether it is the first of a list item.
    """

    kind: BlockKind
    line: int
    text: str
    info: str = ""
    headings: tuple[str, ...] = ()
    row: tuple[str, ...] = ()
    lead: str = ""
    is_closed: bool = True
    intros: tuple[str, ...] = ()
    opens_item: bool = False


class Span(NamedTuple):
    """Inline code, or where a link leads.

    Args:
        text: The code without its ticks, or the destination.
        line: From 1.
        column: From 1.
        block: Where it is.
        before: The text of the block before it, at most NEAR characters.
        after: The text of the block behind it, at most NEAR characters.
    """

    text: str
    line: int
    column: int
    block: Block
    before: str
    after: str


def words_of(block: Block, start: int, end: int, text: str = "") -> Span:
    """Return a part of a block's running text as a span, without its column.

    Args:
        block: The block.
        start: Where the part begins.
        end: Where it ends.
        text: What it is called, on one line, in place of its own words.
    """
    whole = block.text
    words = text or " ".join(whole[start:end].split())
    line = block.line + whole.count("\n", 0, start)
    return Span(words, line, 1, block, whole[:start][-_SIDE:], whole[end:][:_SIDE])


@dataclass
class Markdown:
    """A parsed text."""

    blocks: list[Block] = field(default_factory=list[Block])
    codes: list[Span] = field(default_factory=list[Span])
    links: list[Span] = field(default_factory=list[Span])

    @property
    def fences(self) -> Iterator[Block]:
        """The fenced code blocks."""
        return (block for block in self.blocks if block.kind == "fence")

    @property
    def headings(self) -> Iterator[Block]:
        """The headings."""
        return (block for block in self.blocks if block.kind == "heading")


def parse_markdown(lines: Sequence[str], body_line: int = 1) -> Markdown:
    """Parse the body of a text.

    Args:
        lines: All lines of the text.
        body_line: The line at which the body begins, from 1.
    """
    body = list(lines[body_line - 1 :])
    result = Markdown()
    reader = _Reader(body, body_line, result)
    reader.read(parse_tokens("\n".join(body), inline=False))
    for number, line in enumerate(body, body_line):
        if (found := _DEFINITION.match(line)) and not reader.is_fenced(number):
            block = Block("paragraph", number, line)
            column = found.start("to") + 1
            result.links.append(Span(found["to"].strip("<>"), number, column, block, "", ""))
    return result


class _Reader:
    """Turns the parser's tokens into blocks and spans."""

    def __init__(self, body: list[str], body_line: int, result: Markdown) -> None:
        self._body = body
        self._first = body_line
        self._result = result
        self._headings: list[tuple[int, str]] = []
        self._columns: list[str] = []
        self._row: list[tuple[int, str]] = []
        self._lead = ""
        self._items = 0
        self._opens_item = False
        self._intros: list[str] = []
        self._fenced: set[int] = set()

    def is_fenced(self, number: int) -> bool:
        """Return whether a line of the text is inside fenced code."""
        return number in self._fenced

    def read(self, tokens: list[Token]) -> None:
        """Read all tokens in order."""
        inside = ""
        for token in tokens:
            match token.type:
                case "inline":  # the commonest first
                    self._inline(token, inside)
                case "fence":
                    self._fence(token)
                case "code_block":
                    self._add(self._block("indented", token, token.content.rstrip("\n")))
                case "html_block":
                    self._html_links(
                        self._add(self._block("html", token, token.content.rstrip("\n")))
                    )
                case "bullet_list_open" | "ordered_list_open":
                    self._intros.append(self._lead)
                case "bullet_list_close" | "ordered_list_close":
                    self._intros.pop()
                case "list_item_open":
                    self._items += 1
                    self._opens_item = True
                case "list_item_close":
                    self._items -= 1
                case "heading_open":
                    inside = token.tag
                case "tr_open":
                    self._row = []
                case "tr_close":
                    self._cells()
                case "thead_open" | "tbody_open":
                    inside = token.type
                case "thead_close" | "table_close" | "heading_close":
                    inside = ""
                case _:
                    pass

    def _inline(self, token: Token, inside: str) -> None:
        line = token_line(token, self._first)
        if inside in ("thead_open", "tbody_open"):
            self._row.append((line, token.content))
            if inside == "thead_open":
                self._columns = [text for _, text in self._row]
        elif inside.startswith("h"):
            level = int(inside[1:])
            self._headings = [each for each in self._headings if each[0] < level]
            self._spans(self._add(self._block("heading", token, token.content)))
            self._headings.append((level, token.content))
        else:
            kind: BlockKind = "item" if self._items else "paragraph"
            self._spans(self._add(self._block(kind, token, token.content)))

    def _cells(self) -> None:
        cells = tuple(text for _, text in self._row)
        for index, (line, text) in enumerate(self._row):
            title = self._columns[index] if index < len(self._columns) else ""
            path = tuple(each for _, each in self._headings)
            block = Block(
                "cell", line, text, title, path, cells, self._lead,
                intros=(*self._intros, self._lead, " | ".join(self._columns)),
            )  # fmt: skip
            self._result.blocks.append(block)
            self._spans(block)

    def _fence(self, token: Token) -> None:
        assert token.map is not None, "markdown-it maps every block"
        first, end = token.map
        last = self._body[end - 1] if end <= len(self._body) else ""
        closing = _FENCE.match(last)
        is_closed = end - first > 1 and closing is not None and closing["mark"][0] in token.markup
        block = self._block("fence", token, token.content.rstrip("\n"), token.info.strip())
        fence = Block(
            "fence", block.line + 1, block.text, block.info, block.headings, (), self._lead,
            is_closed, block.intros, block.opens_item,
        )  # fmt: skip
        self._fenced.update(range(block.line, self._first + end))
        self._result.blocks.append(fence)
        self._lead = ""

    def _block(self, kind: BlockKind, token: Token, text: str, info: str = "") -> Block:
        path = tuple(each for _, each in self._headings)
        opens_item, self._opens_item = self._opens_item, False
        return Block(
            kind, token_line(token, self._first), text, info, path, (), self._lead,
            intros=tuple(self._intros), opens_item=opens_item,
        )  # fmt: skip

    def _add(self, block: Block) -> Block:
        self._result.blocks.append(block)
        if block.kind != "html":
            self._lead = block.text
        return block

    def _spans(self, block: Block) -> None:
        text = block.text
        if "`" in text:
            rows = _Rows(block, self._source)
            for found in _CODE_SPAN.finditer(text):
                code = " ".join(found["code"].split())
                span = _span(rows, code, found.start("code"), found.start(), found.end())
                self._result.codes.append(span)
        if "](" in text:
            rows = _Rows(block, self._source)
            for found in _LINK.finditer(_blanked(text)):
                at, end = found.span("to")
                if text[at] == "<" and text[end - 1] == ">":
                    at, end = at + 1, end - 1
                if to := text[at:end]:
                    self._result.links.append(_span(rows, to, at, found.start(), found.end()))
        self._html_links(block)

    def _html_links(self, block: Block) -> None:
        if "<a" not in block.text and "<img" not in block.text:
            return
        text = _HTML_COMMENT.sub(lambda found: _spaces(found.group()), _blanked(block.text))
        rows = _Rows(block, self._source)
        for found in _HTML_LINK.finditer(text):
            if to := found["to"]:
                at = found.start("to")
                self._result.links.append(_span(rows, to, at, found.start(), found.end()))

    def _source(self, line: int) -> str:
        index = line - self._first
        return self._body[index] if 0 <= index < len(self._body) else ""


class _Rows:
    """Where the characters of a block are in the source; asked from left to right.

    Args:
        block: The block.
        source: Returns a line of the source.
    """

    def __init__(self, block: Block, source: Callable[[int], str]) -> None:
        self.block = block
        self._source = source
        self._line = block.line
        self._begin = 0
        self._seen = 0
        self._row = self._find_row()

    def place(self, at: int) -> tuple[int, int]:
        """Return the line and the column of a character of the block."""
        text = self.block.text
        if count := text.count("\n", self._seen, at):
            self._line += count
            self._begin = text.rfind("\n", self._seen, at) + 1
            self._row = self._find_row()
        self._seen = at
        source, offset = self._row
        if offset < 0:  # a cell of a table
            offset = max(0, source.find(text[at : at + 20]) - (at - self._begin))
        return self._line, offset + at - self._begin + 1

    def _find_row(self) -> tuple[str, int]:
        """Return the line of the source, and where in it the block's own line begins.

        The block's lines are in the source behind the marks of lists and quotes.
        """
        source, text = self._source(self._line), self.block.text
        stop = text.find("\n", self._begin)
        return source, source.find(text[self._begin : stop if stop >= 0 else None])


def _span(rows: _Rows, text: str, at: int, start: int, end: int) -> Span:
    line, column = rows.place(at)
    whole = rows.block.text
    before, after = whole[max(0, start - NEAR) : start], whole[end : end + NEAR]
    return Span(text, line, column, rows.block, before, after)


def _blanked(text: str) -> str:
    """Return a text with its inline code blanked out, so that no link is found in it."""
    return _CODE_SPAN.sub(lambda found: _spaces(found.group()), text)


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
