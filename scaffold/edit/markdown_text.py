"""Markdown pages as lines: which are text at all, where headings are, and how texts compare.

Lines in code fences, comments, raw HTML and front matter are no text, whatever they look like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from scaffold.edit.lines import Lines, Text, read_text
from scaffold.edit.table import Keyed

# "```" or "~~~", in a quotation too; behind backticks no further backtick may follow on the line.
_FENCE = re.compile(r"[ \t]*(?:>[ ]?)*[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
# `## Title ##`: the closing number signs are no part of the title.
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
# CommonMark's HTML blocks: these four end at their closing tag, any other at a blank line.
_RAW_HTML = re.compile(r"(?i) {0,3}<(pre|script|style|textarea)(?=[\s>]|$)")
_TAG = re.compile(r" {0,3}</?[A-Za-z][A-Za-z0-9-]*(?=[\s/>]|$)")
_BLANK = re.compile(r"^[ \t]*$")
_BLOCK_START = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)| {0,3}>| {0,3}#{1,6}(?:[ \t]|$)")
# `[text](address)`, `[text][label]` and images.
_LINK = re.compile(r"!?\[((?:[^\[\]\\]|\\.)*)\](?:\([^()]*\)|\[[^\[\]]*\])")
# `{#anchor}` or `{.class}` behind a title, as MkDocs and Pandoc write it.
_ATTRIBUTES = re.compile(r"[ \t]*\{[#.:][^{}]*\}$")


@dataclass(frozen=True)
class Heading:
    """A heading; ``below`` is the first line after it."""

    title: str
    below: int


@dataclass(frozen=True)
class Page:
    """A page; ``is_text`` has for each line whether Markdown looks for structure in it."""

    text: Text
    is_text: tuple[bool, ...]
    headings: tuple[Heading, ...]

    def sections(self, title: str) -> list[range]:
        """Return the lines from each heading of this title to the next heading of any level."""
        ends = [heading.below - 1 for heading in self.headings[1:]] + [len(self.text.lines)]
        pairs = zip(self.headings, ends, strict=True) if self.headings else ()
        wanted = content(title.lstrip("#"))
        return [range(each.below, end) for each, end in pairs if content(each.title) == wanted]


def read_page(text: Text) -> Page:
    """Find what is text, and the headings in it."""
    is_text = _text_lines(text.lines)
    headings: list[Heading] = []
    for number, line in enumerate(text.lines):
        if not is_text[number]:
            continue
        found = _HEADING.match(line)
        if found:
            headings.append(Heading(_ATTRIBUTES.sub("", found[2] or ""), number + 1))
        elif number and _UNDERLINE.match(line) and is_text[number - 1]:
            title = text.lines[number - 1]
            # `---` below a blank line is a rule, below a row with pipes the rule of a table.
            if title.strip() and not starts_block(title) and "|" not in title:
                headings.append(Heading(_ATTRIBUTES.sub("", title.strip()), number + 1))
    return Page(text, is_text, tuple(headings))


def starts_block(line: str) -> bool:
    """Return whether a line begins a list item, a quotation or a heading."""
    return _BLOCK_START.match(line) is not None


def content(text: str) -> str:
    """Return a text as it is compared: without escapes and with single spaces."""
    # The class is ASCII punctuation, which is all that a backslash escapes in Markdown.
    return " ".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).split())


def visible(text: str) -> str:
    """Return what a reader sees of a text with links, code and emphasis; lists sort by it."""
    return content(re.sub(r"[`*]", "", _LINK.sub(r"\1", text)))


K = TypeVar("K", bound=Keyed)


class Markdown(Lines[K]):
    """A registry in a page, whose texts are compared without escapes."""

    def read(self) -> Sequence[K]:
        self.file = read_text(self.data, self.context)
        self.page = read_page(self.file)
        return self.find()

    def is_comment(self, line: int) -> bool:
        return False

    def matches(self, item: K) -> bool:
        return content(item.value or "") == content(self.entry.value)

    def hits(self) -> list[K]:
        wanted = content(self.entry.key)
        return [item for item in self.items if content(item.key or "") == wanted]

    def entries(self) -> dict[str, str | None]:
        return {content(key): content(value or "") for key, value in super().entries().items()}

    def differs(self, item: K) -> str:
        return f"{self.entry.key!r} means {item.value!r}"

    def unsound(self) -> tuple[int, str]:
        return self.line(self.items[0]) if self.items else 0, "the edited page reads differently"


def _text_lines(lines: tuple[str, ...]) -> tuple[bool, ...]:
    is_text: list[bool] = []
    closing = _front_matter(lines)
    fence = ""
    for line in lines:
        if closing is not None:
            is_text.append(False)
            # The first line opens the front matter and looks the same as its end.
            if is_text[1:] and closing.search(line):
                closing = None
        elif fence:
            is_text.append(False)
            # A fence ends with at least as many of its characters as it began with.
            if re.fullmatch(rf"[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*", line):
                fence = ""
        elif found := _FENCE.match(line):
            is_text.append(False)
            fence = found[1]
        else:
            closing = _html(line)
            is_text.append(closing is None and "<!--" not in line)
    return tuple(is_text)


def _front_matter(lines: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return what ends the front matter, where the page begins with one."""
    for opening, closing in (("---", r"^(?:---|\.\.\.)[ \t]*$"), ("+++", r"^\+\+\+[ \t]*$")):
        if lines and lines[0].rstrip() == opening:
            pattern = re.compile(closing)
            # Without its end it is no front matter: a `---` on the first line is a rule then.
            return pattern if any(pattern.match(line) for line in lines[1:]) else None
    return None


def _html(line: str) -> re.Pattern[str] | None:
    """Return what ends the comment or raw HTML that a line opens and does not close."""
    comment = line.rfind("<!--")
    if comment >= 0 and "-->" not in line[comment:]:
        return re.compile("-->")
    found = _RAW_HTML.match(line)
    if found and f"</{found[1].lower()}>" not in line.lower():
        return re.compile(f"(?i)</{found[1]}>")
    return _BLANK if _TAG.match(line) else None  # other tags hold up to a blank line
