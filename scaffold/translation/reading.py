"""A page's text as its sections: markdown-it finds the blocks, as CommonMark and GitHub do."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scaffold.analysis.files.front_matter import (
    NO_FRONT_MATTER,
    FrontMatter,
    read_front_matter,
)
from scaffold.analysis.files.markdown import parse_tokens, token_line
from scaffold.translation.dialects import plain_lines
from scaffold.translation.page import (
    PREAMBLE,
    Block,
    Page,
    Passage,
    Piece,
    Section,
    Slot,
    read_marker,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token

# `<img src="x" alt=y>`: an opening tag; then its attributes, with or without quotes.
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]*)(?P<rest>[^>]*)>")
_ATTRIBUTE = re.compile(
    r"(?P<key>[\w:-]+)\s*=\s*(?:\"(?P<a>[^\"]*)\"|'(?P<b>[^']*)'|(?P<c>[^\s>]+))"
)
_CODE_SIGN = " \N{OBJECT REPLACEMENT CHARACTER} "
"""Replaces code in prose, so that words around it are not joined."""

# A tag, and of a style or a script what is in it too.
_MARKUP = re.compile(r"<(style|script)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# MyST writes roles in front of code: {ref}`text <target>`, of which the target is compared.
_ROLE = re.compile(r"\{(?:ref|doc|term|numref|eq|any|abbr|download|(?:[\w-]+:)+[\w-]+)\}$")
_ROLE_TARGET = re.compile(r"<[^<>]+>$")
# `{{ x }}` and `{% x %}` of Jinja; `{* file.py *}` and `{! file.md !}`, which include a file.
_PLACEHOLDER = re.compile(r"\{\{.+?\}\}|\{%.+?%\}|\{(?P<mark>[*!]) .+? (?P=mark)\}|\{!.+?!\}")
_ALERT = re.compile(r"\A\[!\w+\]")
"""The first line of a note as GitHub writes it, which has no words that are translated."""

_PRESENTATION = frozenset({"a", "abbr", "b", "br", "em", "i", "strong", "wbr"})
"""Tags that a language may need more or fewer of; links are compared by where they lead."""

_SHOWN = frozenset({"alt", "title", "aria-label", "summary", "label"})
"""Attributes whose text a reader sees, and which are translated."""

HASH_DIGITS = 12
# MyST's `(label)=` above a heading; then `{#id}` or `{: #id}` at its end.
_LABEL = re.compile(r"\(([\w:.-]+)\)=\s*\Z")
_OWN_ID = re.compile(r"\s*\{:?\s*#(?P<id>[\w:.-]+)[^{}]*\}\s*$")


class Html:
    """A reader that takes tags and comments out of HTML."""

    def __init__(self, anchors: list[Piece], comments: list[Piece]) -> None:
        self._anchors = anchors
        self._comments = comments

    def read(self, html: str, line: int, into: Passage) -> None:
        """Read a piece of HTML that begins at a line."""
        for found in _COMMENT.finditer(html):
            at = line + html.count("\n", 0, found.start())
            self._comments.append(Piece(found.group(), at))
        # The line breaks of comments stay, so that tags keep their lines.
        bare = _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), html)
        for found in _TAG.finditer(bare):
            self._tag(found, line + bare.count("\n", 0, found.start()), into)
        words = _MARKUP.sub(" ", bare).strip()
        into.prose += f" {words}"
        into.plain += words

    def _tag(self, found: re.Match[str], line: int, into: Passage) -> None:
        kept = [found["name"].lower()]
        for each in _ATTRIBUTE.finditer(found["rest"]):
            key = each["key"].lower()
            # One of the three ways to quote a value has matched.
            value = next(text for text in each.group("a", "b", "c") if text is not None)
            if key == "href":
                into.links.append(Piece(unquote(value), line))
            elif key == "src":
                into.images.append(Piece(unquote(value), line))
            elif key in ("id", "name"):
                self._anchors.append(Piece(value, line))
            elif key not in _SHOWN:
                kept.append(f'{key}="{value}"')
        if found["name"].lower() not in _PRESENTATION:
            into.tags.append(Piece(" ".join(kept), line))


def read_inline(token: Token, slot: Slot, line: int, html: Html) -> Passage:
    """Return the passage that a token of inline content holds."""
    found = Passage(slot, line)
    at = line
    for child in token.children or []:
        match child.type:
            case "text":
                placeholders = [each.group() for each in _PLACEHOLDER.finditer(child.content)]
                found.codes += [Piece(each, at) for each in placeholders]
                found.prose += _PLACEHOLDER.sub(_CODE_SIGN, child.content)
                found.plain += child.content
            # Inline tokens have no lines of their own; the breaks between them are counted.
            case "softbreak" | "hardbreak":
                found.prose += "\n"
                found.plain += " "
                at += 1
            case "code_inline":
                code = child.content
                found.codes.append(Piece(_code(code, found.prose), at))
                found.prose += _CODE_SIGN
                found.plain += code
            case "link_open":
                # markdown-it percent-encodes targets, which sources mostly do not.
                found.links.append(Piece(unquote(str(child.attrGet("href") or "")), at))
            case "image":
                found.images.append(Piece(unquote(str(child.attrGet("src") or "")), at))
            case "html_inline":
                html.read(child.content, at, found)
            case _:
                pass
    # The first line of a note, or an image alone, is no paragraph.
    found.paragraphs = 1 if _ALERT.sub("", found.plain).strip() else 0
    return found


def _code(code: str, before: str) -> str:
    """Return what has to stay of inline code: of a MyST role with a text, where it leads."""
    target = _ROLE_TARGET.search(code)
    return target.group() if target and _ROLE.search(before) else " ".join(code.split())


def read_page(path: str, text: str) -> Page:
    """Return a page by its text, whatever line ends it has."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    front = read_front_matter("\n".join(lines), may_end_in_dots=True)
    if front.fault in ("open", "shape"):  # a rule, or text between two of them
        front = NO_FRONT_MATTER
    # The front matter becomes blank lines, so that tokens have the page's own line numbers.
    plain = plain_lines(["" if at < front.body_line else row for at, row in enumerate(lines, 1)])
    reader = _Reader(front)
    reader.read(parse_tokens("\n".join(plain.lines)))
    sections = reader.finish(len(lines) + 1, plain.admonitions)
    return Page(path, tuple(lines), front, tuple(sections))


class _Reader:
    """A reader of the parser's tokens that collects sections."""

    def __init__(self, front: FrontMatter) -> None:
        self._front = front
        self._sections: list[Section] = [Section(1, 0)]
        self._digested: list[list[str]] = [[front.text] if front.text else []]
        self._lists: list[list[int]] = []
        """Of each list around: its number in the section, its items, its place among blocks."""
        self._table: list[int] = []
        """Of the table around: its number, rows, columns, the column, its place among blocks."""
        self._in_heading = False
        self._passages: dict[Slot, Passage] = {}
        self._counts: Counter[str] = Counter()

    def read(self, tokens: list[Token]) -> None:
        for token in tokens:
            # Headings inside quotes and lists divide nothing.
            if token.type == "heading_open" and token.level == 0:
                self._start(token)
            if self._is_marker(token):
                continue
            self._digest(token)
            self._read(token)

    def finish(self, end: int, admonitions: Iterable[Piece]) -> list[Section]:
        for piece in admonitions:
            line = piece.line + 1
            section = next(each for each in reversed(self._sections) if each.line <= line)
            section.blocks.append(Block("admonition", line, info=piece.text))
            self._digested[self._sections.index(section)].append(f"admonition {piece.text}")
        for section, after in zip(self._sections, self._sections[1:], strict=False):
            section.end = after.line
        self._sections[-1].end = end
        for section, parts in zip(self._sections, self._digested, strict=True):
            section.blocks.sort(key=lambda block: block.line)
            digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape"))
            section.hash = digest.hexdigest()[:HASH_DIGITS]
        first, *rest = self._sections
        # A comment alone, such as a licence, is no text that anybody translates.
        has_words = any(each.prose.strip() for each in first.passages) or first.blocks
        is_empty = not (has_words or self._front.text or first.markers)
        if is_empty and rest:
            rest[0].anchors[:0] = first.anchors
        found = rest if is_empty and rest else self._sections
        _name(found)
        return found

    def _start(self, token: Token) -> None:
        self._sections.append(Section(token_line(token), int(token.tag[1:])))
        self._digested.append([])
        # Slots count from each heading again.
        self._lists, self._table = [], []
        self._passages, self._counts = {}, Counter()
        self._in_heading = True

    @property
    def _section(self) -> Section:
        return self._sections[-1]

    def _is_marker(self, token: Token) -> bool:
        if token.type != "html_block" or token.level:
            return False
        marker = read_marker(token.content, token_line(token))
        if marker is None:
            return False
        self._section.markers.append(marker)
        return True

    def _digest(self, token: Token) -> None:
        # Rewrapping a paragraph does not make its translation stale; in code every blank counts.
        exact = token.type in ("fence", "code_block")
        content = token.content if exact else " ".join(token.content.split())
        # Editors on macOS may store accents decomposed.
        content = unicodedata.normalize("NFC", content)
        self._digested[-1].append(f"{token.type} {token.tag} {token.info.strip()} {content}")

    def _read(self, token: Token) -> None:
        match token.type:
            case "heading_close":
                self._in_heading = False
            case "blockquote_open":
                self._add(Block("quote", token_line(token)))
            case "hr":
                self._add(Block("rule", token_line(token)))
            case "fence" | "code_block":
                kind = "code block" if token.type == "fence" else "indented code"
                info = token.info.strip()
                self._add(Block(kind, token_line(token), (), info, token.content))
            case "html_block":
                html = Html(self._section.anchors, self._section.comments)
                line = token_line(token)
                html.read(token.content, line, self._passage(Passage(self._slot(), line)))
            case "inline":
                self._inline(token)
            case "bullet_list_open":
                self._open_list(token, "bullet list")
            case "ordered_list_open":
                self._open_list(token, "numbered list")
            case "list_item_open":
                self._lists[-1][1] += 1
            case "bullet_list_close" | "ordered_list_close":
                _, items, place = self._lists.pop()
                self._resize(place, (items,))
            case "table_open":
                place = self._add(Block("table", token_line(token)))
                self._table = [self._counts["table"], 0, 0, 0, place]
            case "tr_open":
                self._table[1] += 1
                self._table[3] = 0
            case "th_open" | "td_open":
                self._table[3] += 1
                self._table[2] = max(self._table[2], self._table[3])
            case "table_close":
                self._resize(self._table[4], (self._table[1], self._table[2]))
                self._table = []
            case _:
                pass

    def _inline(self, token: Token) -> None:
        section, line = self._section, token_line(token)
        label = _LABEL.match(token.content)
        if label:
            section.anchors.append(Piece(label[1], line))
            return
        slot: Slot = ("heading",) if self._in_heading else self._slot()
        passage = read_inline(token, slot, line, Html(section.anchors, section.comments))
        if self._in_heading:
            own = _OWN_ID.search(passage.plain)
            if own:
                section.anchors.append(Piece(own["id"], line))
                passage.plain = _OWN_ID.sub("", passage.plain)
                passage.prose = _OWN_ID.sub("", passage.prose)
            section.title = passage.plain.strip()
        self._passage(passage)

    def _passage(self, passage: Passage) -> Passage:
        """Return the passage of the same place, which takes in what is new."""
        known = self._passages.get(passage.slot)
        if known is not None:
            known.join(passage)
            return known
        self._passages[passage.slot] = passage
        self._section.passages.append(passage)
        return passage

    def _slot(self) -> Slot:
        """Return the place of text that comes now."""
        if self._table:
            return ("cell", self._table[0], self._table[1], self._table[3])
        if self._lists:
            return ("item", self._lists[-1][0], self._lists[-1][1])
        # Lists around are closed here, so the blocks so far come before this text.
        return ("text", len(self._section.blocks))

    def _open_list(self, token: Token, kind: str) -> None:
        place = self._add(Block(kind, token_line(token)))
        number = self._counts["bullet list"] + self._counts["numbered list"]
        self._lists.append([number, 0, place])

    def _add(self, block: Block) -> int:
        self._section.blocks.append(block)
        self._counts[block.kind] += 1
        return len(self._section.blocks) - 1

    def _resize(self, place: int, size: tuple[int, ...]) -> None:
        self._section.blocks[place] = self._section.blocks[place]._replace(size=size)


def _name(sections: list[Section]) -> None:
    """Give every section its anchor and its key."""
    slugs: dict[str, int] = {}
    keys: set[str] = set()
    ids: set[str] = set()
    for section in sections:
        if section.level == 0:
            section.key = PREAMBLE
        else:
            base = slug_of(section.title)
            count = slugs.get(base, -1) + 1
            slugs[base] = count
            # GitHub numbers repeated headings from 1, and leaves the first one bare.
            section.slug = f"{base}-{count}" if count else base
            section.mkdocs_slug = _mkdocs_slug(section.title, ids)
            section.key = _unused(re.sub("-{2,}", "-", base).strip("-") or "section", keys)
        keys.add(section.key)


def _unused(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken or found == PREAMBLE:
        number += 1
        found = f"{name}-{number}"
    return found


def _mkdocs_slug(title: str, taken: set[str]) -> str:
    """Return the anchor of a heading, unlike those that are taken, and take it.

    Source: the extension `toc` of Python-Markdown, whose anchors keep ASCII alone.
    """
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    found = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
    while not found or found in taken:
        counted = re.match(r"(.*)_(\d+)$", found)
        found = f"{counted[1]}_{int(counted[2]) + 1}" if counted else f"{found}_1"
    taken.add(found)
    return found


def slug_of(title: str) -> str:
    """Return the anchor of a heading.

    Source: GitHub's rule: lower case, spaces become hyphens, what is neither a letter, a digit, a
    hyphen nor an underscore goes.
    """
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
