"""The text inside a block, taken apart: words, code, links, images, tags, with their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scaffold.translation.page import Passage, Piece, Slot

if TYPE_CHECKING:
    from markdown_it.token import Token

# `<img src="x" alt=y>`: an opening tag; then its attributes, with or without quotes.
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]*)(?P<rest>[^>]*)>")
_ATTRIBUTE = re.compile(
    r"(?P<key>[\w:-]+)\s*=\s*(?:\"(?P<a>[^\"]*)\"|'(?P<b>[^']*)'|(?P<c>[^\s>]+))"
)
_CODE_SIGN = " \N{OBJECT REPLACEMENT CHARACTER} "
"""Stands in prose for code, so that words around it are not joined."""

# A tag, and of a style or a script what stands in it too.
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


class Html:
    """A reader that takes tags and comments out of HTML.

    Args:
        anchors: Where ids go.
        comments: Where comments go.
    """

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
