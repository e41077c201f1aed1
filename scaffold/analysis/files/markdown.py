"""Markdown as CommonMark and GitHub have it: blocks and tables by markdown-it, fences by line."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from scaffold.analysis.lazy_re import lazy_re

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

FENCE = lazy_re(r" {0,3}(?P<mark>`{3,}|~{3,})")
"""A line that opens or closes fenced code at the margin, for texts that need no parser."""


def parse_tokens(text: str, *, inline: bool = True) -> list[Token]:
    """Return the tokens of a text.

    Args:
        text: Markdown without front matter.
        inline: Whether the text of blocks is parsed, too. Blocks come with their lines, which
            inline tokens have not.
    """
    return _parser(inline).parse(text)


def token_line(token: Token, first: int = 1) -> int:
    """Return the line of a block in a text that begins at the line ``first``."""
    assert token.map is not None, "markdown-it maps every block"
    return token.map[0] + first


@cache
def _parser(inline: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # costs 50 ms; help and completion do without

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    # markdown-it drops javascript: and file: links from the tokens, which a check has to see.
    parser.validateLink = lambda url: True
    if not inline:
        parser.core.ruler.disable(["inline", "text_join"])
    return parser
