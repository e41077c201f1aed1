"""The commands of a text of shell, each with its words and the place of each word.

No shell is asked. Where a text is no real shell, as in a usage line, the words that stand for
others are marked so, and whoever judges them does not take them by the letter.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re

_TOKEN = lazy_re(
    r"""
    (?P<blank>(?:[ \t]|\\\n)+)
  | (?P<newline>\n)
  | (?P<heredoc><<-?[ \t]*(?P<quote>['"\\]?)(?P<end>[A-Za-z_]\w*)['"]?)
  | (?P<herestring><<<)
  | (?P<redirect>(?:\d+|&)?(?:>>|>\||>&|<&|<>|>|<)(?!\())
  | (?P<operator>&&|\|\||;;|\|&|[;&|()])
    """,
    re.VERBOSE,
)
# `<name>` or `<a model>`, but not the redirections of `a <b >c`, which hold a line end or a sign.
_PLACEHOLDER = lazy_re(r"<[A-Za-z][^<>\n=&;]*>")
# Characters that mean themselves, and the two kinds that never do: `$x`, `${x:-1}`, `$1` and, in a
# usage line, `[--flag]`; `$(...)`, `$((...))`, `<(...)`.
_PLAIN = lazy_re(r"[^\s\\'\"`$<>|&;()\[\]{}*?~…]+")
_VARIABLE = lazy_re(r"\$(?:[A-Za-z_]\w*|\d|[@*#?$!-]|\{[^{}\n]*\})|\[[^\[\]\n]*\]")
_SUBSTITUTION = lazy_re(r"\$\(\(?|[<>]\(")
# A whole here-document, `<<EOF` to `EOF`, of a hundred lines at most: what is longer is not
# inside of a substitution.
_HEREDOC = lazy_re(
    r"<<-?[ \t]*['\"\\]?(?P<end>[A-Za-z_]\w*)['\"]?[^\n]*\n"
    r"(?:.*\n){0,100}?[ \t]*(?P=end)[ \t]*(?=\n|$)"
)
_MOST_DEPTH = 50
"""Nobody nests commands in quotes in commands deeper."""
_ELLIPSIS = lazy_re(r"\.{3}|…")


class Word(NamedTuple):
    """One word of a command.

    Args:
        text: The word without its quotes; what a variable or a command gives is kept as written.
        line: The line it begins on, from 0 for the first of the text.
        column: Its first character on that line, from 0.
        is_sure: Whether it is meant literally; `$x`, `<name>`, `[--flag]`, `*` are not.
        is_quoted: Whether any of it is in quotes.
        raw: The word as it is written.
    """

    text: str
    line: int
    column: int
    is_sure: bool = True
    is_quoted: bool = False
    raw: str = ""


@dataclass
class Simple:
    """One simple command.

    Args:
        words: Its words, those of assignments in front among them.
        outputs: The files that it is redirected to.
        before: The operator in front of it: "", ";", "&&", "||", "|", "(", "\\n".
    """

    words: list[Word] = field(default_factory=list[Word])
    outputs: list[Word] = field(default_factory=list[Word])
    before: str = ""


@dataclass
class Script:
    """A text of shell: its simple commands in order, and whether a mark in it is not closed."""

    commands: list[Simple] = field(default_factory=list[Simple])
    is_open: bool = False


@lru_cache(maxsize=32)
def read_shell(text: str) -> Script:
    """Read a text of shell; one text is asked for by several claims, and nobody changes it."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._script = Script()
        self._simple = Simple()
        self._redirect = ""
        self._heredocs: list[str] = []
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def read(self) -> Script:
        """Read all of the text."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                self._skip_comment()
                continue
            # <name> in a usage line would otherwise read as a redirection.
            token = None if self._is_placeholder() else _TOKEN.match(self._text, self._at)
            if token is None or (token["operator"] and self._is_alternative(token)):
                self._read_word()
            else:
                self._at = token.end()
                self._take(token)
        self._end("")
        self._script.is_open |= bool(self._heredocs)
        return self._script

    def _is_placeholder(self) -> bool:
        return self._text[self._at] == "<" and _PLACEHOLDER.match(self._text, self._at) is not None

    def _is_alternative(self, token: re.Match[str]) -> bool:
        """Return whether `|` is between two words without blanks: one or the other."""
        at = token.start()
        if token["operator"] != "|" or at == 0 or token.end() >= len(self._text):
            return False
        return not self._text[at - 1].isspace() and not self._text[token.end()].isspace()

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _take(self, token: re.Match[str]) -> None:
        if token["newline"]:
            self._end("\n")
            self._skip_heredocs()
        elif token["heredoc"]:
            self._heredocs.append(token["end"])
        elif token["herestring"]:
            self._redirect = "<"
        elif token["redirect"]:
            self._redirect = token["redirect"]
        elif token["operator"]:
            self._end(token["operator"])

    def _end(self, operator: str) -> None:
        """End a simple command; the operator is the next one's."""
        self._redirect = ""
        if self._simple.words or self._simple.outputs:
            self._script.commands.append(self._simple)
            self._simple = Simple(before=operator)
        # `(` or `;` in front of nothing yet: the command that follows has it in front.
        elif operator not in ("\n", ""):
            self._simple.before = operator

    def _skip_heredocs(self) -> None:
        for end in self._heredocs:
            # Indented ends are accepted without <<- too: documents indent whole blocks.
            closing = re.compile(rf"^[ \t]*{re.escape(end)}[ \t]*$", re.MULTILINE)
            found = closing.search(self._text, self._at)
            self._script.is_open |= found is None
            self._at = min(found.end() + 1, len(self._text)) if found else len(self._text)
        self._heredocs = []

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, at) - 1
        return line, at - self._line_starts[line]

    def _read_word(self) -> None:
        start = self._at
        pieces = _Pieces()
        while self._at < len(self._text) and self._read_piece(pieces):
            pass
        if self._at == start:  # a sign that belongs to nothing
            self._at += 1
            return
        line, column = self._place(start)
        raw = self._text[start : self._at]
        text = "".join(pieces.texts)
        word = Word(text, line, column, pieces.is_sure, pieces.is_quoted, raw)
        if not self._redirect:
            self._simple.words.append(word)
        elif ">" in self._redirect:
            self._simple.outputs.append(word)
        self._redirect = ""

    def _read_piece(self, pieces: _Pieces) -> bool:
        """Read the next part of a word; return False where the word ends."""
        text, at = self._text, self._at
        if text[at] in " \t\n":
            return False
        if found := _PLAIN.match(text, at):
            is_sure = _ELLIPSIS.search(found.group()) is None
            return self._add(pieces, found.group(), found.end(), is_sure=is_sure)
        if found := _PLACEHOLDER.match(text, at) or _VARIABLE.match(text, at):
            return self._add(pieces, found.group(), found.end(), is_sure=False)
        if found := _SUBSTITUTION.match(text, at):
            end = _closing(text, found.end())
            return self._add(pieces, text[at:end], end, is_sure=False)
        sign, following = text[at], text[at + 1 : at + 2]
        if sign in "'\"`":
            return self._read_quoted(pieces, sign)
        if sign == "\\" and following not in ("", "\n"):
            return self._add(pieces, following, at + 2)
        if sign in "*?{}[]~…$":
            # A brace alone between blanks groups commands; inside a word it expands.
            is_whole = sign in "{}" and not pieces.texts and following.isspace()
            return self._add(pieces, sign, at + 1, is_sure=sign == "~" or is_whole)
        if sign == "|" and pieces.texts and following.strip(" \t\n|&"):
            return self._add(pieces, sign, at + 1, is_sure=False)
        return False

    def _add(self, pieces: _Pieces, text: str, end: int, *, is_sure: bool = True) -> bool:
        """Add a part of a word, which goes on behind it."""
        pieces.texts.append(text)
        pieces.is_sure = pieces.is_sure and is_sure
        self._at = end
        return True

    def _read_quoted(self, pieces: _Pieces, sign: str) -> bool:
        start = self._at
        end = _end_of_quote(self._text, start, sign)
        if end is None:
            self._script.is_open = True
            return self._add(pieces, self._text[start:], len(self._text), is_sure=False)
        inner = self._text[start + 1 : end]
        pieces.is_quoted = True
        # Single quotes keep `$x` as it is; double quotes and backquotes are expanded by the shell.
        if sign == "`":
            return self._add(pieces, f"`{inner}`", end + 1, is_sure=False)
        is_sure = sign == "'" or re.search(r"(?<!\\)[$`]", inner) is None
        # In double quotes the backslash escapes these signs alone and otherwise stays.
        if sign == '"' and is_sure:
            inner = re.sub(r"\\([\"\\$`\n])", r"\1", inner)
        return self._add(pieces, inner, end + 1, is_sure=is_sure)


@dataclass
class _Pieces:
    """The parts of one word, as they are collected."""

    texts: list[str] = field(default_factory=list[str])
    is_sure: bool = True
    is_quoted: bool = False


def _end_of_quote(text: str, start: int, sign: str, depth: int = 0) -> int | None:
    """Return where a quote closes, or None."""
    if sign == "'":
        # No escape exists between single quotes.
        end = text.find("'", start + 1)
        return end if end >= 0 else None
    at = start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == sign:
            return at
        elif sign == '"' and text.startswith("$(", at):
            at = _closing(text, at + 2, depth + 1)
        else:
            at += 1
    return None


def _closing(text: str, at: int, depth: int = 0) -> int:
    """Return the place behind the bracket that closes one opened before ``at``."""
    if depth > _MOST_DEPTH:
        return len(text)
    num_open = 1
    while at < len(text) and num_open:
        sign = text[at]
        if sign == "\\":
            at += 1
        # Quotes and brackets inside a here-document do not nest with the shell's.
        elif sign == "<" and (found := _HEREDOC.match(text, at)):
            at = found.end() - 1
        elif sign in "'\"":
            end = _end_of_quote(text, at, sign, depth)
            at = len(text) if end is None else end
        elif sign == "(":
            num_open += 1
        elif sign == ")":
            num_open -= 1
        at += 1
    return min(at, len(text))
