"""The sentence that a span stands in, and expressions for words in it."""

from __future__ import annotations

import re
from functools import cached_property

from scaffold.skills.check.markdown import Span

_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\[(])|\n\s*\n")
_CLAUSE = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z`*\[(])|\n\s*\n")
_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\[(])|(?<=[.!?])$|\n\s*\n")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = "§"
"""What a span becomes, so that the words of a path are no words of the sentence."""
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"\*\*|__|<!--.*?-->|^\s*(?:>\s*)+", re.DOTALL | re.MULTILINE)


def any_of(words: str) -> str:
    """Returns an expression for any of these words; an underscore stands for a space."""
    return f"(?:{'|'.join(words.split()).replace('_', ' ')})"


class Words:
    """Is an expression that leaves the case open, and is compiled when it is first asked.

    Args:
        expression: As `re` has it.
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled."""
        return re.compile(self._expression, re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        """Returns where the expression first fits."""
        return self.pattern.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """Returns how the expression fits at the beginning."""
        return self.pattern.match(text)


def compiled(*parts: str) -> Words:
    """Returns the parts as one expression."""
    return Words("".join(parts))


def sentence_around(span: Span) -> tuple[str, str]:
    """Returns the words of a span's own sentence before it and behind it, comments left out.

    What stands before a colon is a sentence of its own.
    """
    before = _CLAUSE.split(_shown(span.before))[-1]
    return before, _END.split(_shown(span.after))[0]


def before_colon(span: Span) -> str:
    """Returns the words of a span's own sentence before it, with what leads to a colon."""
    return _SENTENCE.split(_shown(span.before))[-1]


def words_before(span: Span) -> str:
    """Returns what its paragraph says before a span, in plain words."""
    return plain(span.before)


def sentence_before(words: str) -> str:
    """Returns the last whole sentence of the words before a span."""
    return (["", "", *_SENTENCE.split(words)])[-2]


def _shown(text: str) -> str:
    # A comment that allows a rule holds words ("path-missing") that would silence the claim.
    return _COMMENT.sub("", text)


def plain(text: str) -> str:
    """Returns running text without its marks, with a sign for each span."""
    return _MARKS.sub("", _CODE.sub(_sign, _LINK.sub(r"\1", text)))


def _sign(code: re.Match[str]) -> str:
    # A command names something else than what it is given.
    return "¤" if " " in code.group().strip("` ") else SPAN
