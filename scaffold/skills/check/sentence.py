"""The sentence that a span stands in, and expressions for words in it."""

from __future__ import annotations

import re

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.markdown import Span

_SENTENCE = lazy_re(r"(?<=[.!?;])\s+(?=[A-Z`*\[(])|\n\s*\n")
_CLAUSE = lazy_re(r"(?<=[.!?;:])\s+(?=[A-Z`*\[(])|\n\s*\n")
_END = lazy_re(r"(?<=[.!?;])\s+(?=[A-Z`*\[(])|(?<=[.!?])$|\n\s*\n")
_COMMENT = lazy_re(r"<!--.*?-->", re.DOTALL)
SPAN = "§"
"""What a span becomes, so that the words of a path are no words of the sentence."""
_CODE = lazy_re(r"`[^`]*`")
_LINK = lazy_re(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS = lazy_re(r"\*\*|__|<!--.*?-->|^\s*(?:>\s*)+", re.DOTALL | re.MULTILINE)


def any_of(words: str) -> str:
    """Return an expression for any of these words; an underscore stands for a space."""
    return f"(?:{'|'.join(words.split()).replace('_', ' ')})"


def compiled(*parts: str) -> re.Pattern[str]:
    """Return the parts as one expression that leaves the case open."""
    return lazy_re("".join(parts), re.IGNORECASE)


def sentence_around(span: Span) -> tuple[str, str]:
    """Return the words of a span's own sentence before it and behind it, comments left out.

    What stands before a colon is a sentence of its own.
    """
    before = _CLAUSE.split(_shown(span.before))[-1]
    return before, _END.split(_shown(span.after))[0]


def before_colon(span: Span) -> str:
    """Return the words of a span's own sentence before it, with what leads to a colon."""
    return _SENTENCE.split(_shown(span.before))[-1]


def words_before(span: Span) -> str:
    """Return what its paragraph says before a span, in plain words."""
    return plain(span.before)


def sentence_before(words: str) -> str:
    """Return the last whole sentence of the words before a span."""
    return (["", "", *_SENTENCE.split(words)])[-2]


def _shown(text: str) -> str:
    # A comment that allows a rule holds words ("path-missing") that would silence the claim.
    return _COMMENT.sub("", text)


def plain(text: str) -> str:
    """Return running text without its marks, with a sign for each span."""
    return _MARKS.sub("", _CODE.sub(_sign, _LINK.sub(r"\1", text)))


def _sign(code: re.Match[str]) -> str:
    # A command names something else than what it is given.
    return "¤" if " " in code.group().strip("` ") else SPAN
