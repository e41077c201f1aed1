"""Breaks long lines of Python the way ruff and Black do, without running either.

The writers emit each statement on one line. Here a statement that does not fit is split at its
last bracket, or at the operators that bind least; among several ways, in the one that ruff takes.
"""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from dataclasses import dataclass

WIDTH = 100
_OPEN, _CLOSE = "([{", ")]}"

_STRENGTHS = ("**", "* / // % @", "+ -", "<< >>", "&", "^", "|", "== != < > <= >= in is not",
              "and or", "if else", "for", ",")  # fmt: skip
"""What may be between two lines, from what binds most; Black's order."""
_RANKS = {text: rank for rank, row in enumerate(_STRENGTHS) for text in row.split()}
_COMMA, _COMPREHENSION, _LOGIC = _RANKS[","], _RANKS["for"], _RANKS["and"]
_TOKEN = re.compile(
    r"""
    (\s*)(
      [a-zA-Z]*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')  # a string, also an f-string, is one token
      | \d[\d_.]*(?:[eE][+-]?\d+)? | \w+ | \#.*
      | \*\* | // | << | >> | -> | [=!<>+*/-]= | \S
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Token:
    """One token, with the blank text before it."""

    text: str
    gap: str


_Line = list[_Token]


def break_lines(source: str, width: int = WIDTH) -> str:
    """Return the source with every statement that is too long broken over several lines.

    Comments, strings over several lines and statements that fit stay as they are.
    """
    lines = source.splitlines()
    inside_text = _lines_of_text(source)
    done: list[str] = []
    for number, line in enumerate(lines, 1):
        # A break inside a string of several lines would change its content.
        if len(line) <= width or number in inside_text or line.lstrip().startswith("#"):
            done.append(line)
        else:
            indent = line[: len(line) - len(line.lstrip())]
            tokens = [_Token(text, gap) for gap, text in _TOKEN.findall(line.lstrip())]
            done += _laid(tokens, indent, width, inside=False)
    return "\n".join(done) + "\n"


def _lines_of_text(source: str) -> set[int]:
    """Return the numbers of the lines that belong to strings of several lines."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING and token.start[0] != token.end[0]:
            found.update(range(token.start[0], token.end[0] + 1))
    return found


def _text(line: _Line) -> str:
    return "".join(each.gap + each.text for each in line).strip()


def _laid(line: _Line, indent: str, width: int, *, inside: bool) -> list[str]:
    """Return a line, broken if it has to be; ``inside`` is True inside brackets."""
    text = _text(line)
    if len(indent) + len(text) <= width:
        return [indent + text]
    parts = _delimited(line) if inside else []
    if parts:
        return [row for part in parts for row in _laid(part, indent, width, inside=True)]
    if not inside:
        start, end = _free_expression(line)
        bracket = _breaks_at_bracket(line[start:end], len(indent), width, line[:start])
        if start < end and not bracket:
            # The expression gets brackets of its own.
            body = _laid(line[start:end], indent + "    ", width, inside=True)
            return [f"{indent}{_text(line[:start])} (", *body, f"{indent}){_text(line[end:])}"]
    return _at_bracket(line, indent, width)


def _at_bracket(line: _Line, indent: str, width: int) -> list[str]:
    """Return a line broken at a bracket: the last whose head fits, for ``def`` the first."""
    pairs = [pair for pair in _pairs(line) if pair[1] > pair[0] + 1]
    if not pairs:
        return [indent + _text(line)]
    # The brackets of a return type come after those of the parameters, and never break.
    first = line[0].text in ("def", "class")
    fitting = [p for p in pairs if len(indent) + len(_text(line[: p[0] + 1])) <= width]
    start, end = pairs[0] if first else (fitting or pairs)[-1]
    inner = line[start + 1 : end]
    within = indent + "    "
    has_elements = any(rank == _COMMA for _, rank in _ranked(inner))
    # A literal has one element a line, even where they would fit together.
    parts = _delimited(inner) if has_elements and not _follows_value(line, start) else [inner]
    body = [row for part in parts for row in _laid(part, within, width, inside=True)]
    return [indent + _text(line[: start + 1]), *body, indent + _text(line[end:])]


def _follows_value(line: _Line, index: int) -> bool:
    """Return whether a bracket belongs to what comes before it: a call or an index."""
    before = line[index - 1].text if index else ""
    return before in (*_CLOSE,) or (before.isidentifier() and not keyword.iskeyword(before))


def _pairs(line: _Line) -> list[tuple[int, int]]:
    """Return where the outermost brackets open and close."""
    found: list[tuple[int, int]] = []
    depth, start = 0, 0
    for index, token in enumerate(line):
        if token.text in _OPEN:
            start = start if depth else index
            depth += 1
        elif token.text in _CLOSE:
            depth -= 1
            if not depth:
                found.append((start, index))
    return found


def _free_expression(line: _Line) -> tuple[int, int]:
    """Return the range of the expression that a statement could put in brackets, or none."""
    word = line[0].text
    if word == "return":
        return 1, len(line)
    # Without the colon at the end.
    if word in ("if", "elif", "while"):
        return 1, len(line) - 1
    # Nothing in them may get brackets of its own; they break at those they have.
    if word in ("def", "class", "from", "import", "for", "with"):
        return 0, 0
    depth = 0
    for index, token in enumerate(line):
        depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if not depth and token.text in ("=", "+=", "*="):
            return index + 1, len(line)
    return 0, 0


def _breaks_at_bracket(line: _Line, used: int, width: int, head: _Line) -> bool:
    """Return whether an expression is best broken at its last bracket, without more of them."""
    ranks = [rank for _, rank in _ranked(line)]
    strongest = ranks.count(max(ranks)) if ranks else 0
    pairs = _pairs(line)
    # Black's rule: of two operators of the strongest rank, none is left inside a line.
    if strongest > 1 or not pairs or pairs[-1][1] != len(line) - 1:
        return False
    start, end = pairs[-1]
    return end > start + 1 and used + len(_text([*head, *line[: start + 1]])) <= width


def _ranked(line: _Line) -> list[tuple[int, int]]:
    """Return the places before which a line can break, outside of its brackets, and their rank."""
    found: list[tuple[int, int]] = []
    depth, loops, opened = 0, 0, 0
    for index, token in enumerate(line):
        text, before = token.text, line[index - 1].text if index else ""
        depth += (text in _OPEN) - (text in _CLOSE)
        is_of_loop = text == "in" and opened > 0
        opened += (text == "for") - (text == "in")
        rank = _RANKS.get(text)
        if depth or not index or rank is None:
            continue
        if rank == _COMMA:
            found += [(index + 1, rank)] if index + 1 < len(line) else []
        elif rank >= _LOGIC:
            loops += text == "for"
            # The condition of a comprehension, as against that of a ternary.
            found.append((index, _COMPREHENSION if text == "if" and loops else rank))
        elif _ends_value(before) and not is_of_loop:
            found.append((index, rank))
    return found


def _ends_value(before: str) -> bool:
    """Return whether an operator may follow: a sign in front of a value is no place to break."""
    if keyword.iskeyword(before):
        return before in ("None", "True", "False")
    return before not in (*_OPEN, "=") and before not in _RANKS


def _delimited(line: _Line) -> list[_Line]:
    """Return a line in pieces, broken at what binds least; none if nothing separates it."""
    places = _ranked(line)
    if not places:
        return []
    rank = max(rank for _, rank in places)
    cuts = [index for index, each in places if each == rank]
    pieces = [line[i:j] for i, j in zip([0, *cuts], [*cuts, len(line)], strict=True) if i < j]
    # As Black has it: one element a line ends in a comma.
    if rank == _COMMA and pieces[-1][-1].text != ",":
        pieces[-1] = [*pieces[-1], _Token(",", "")]
    return pieces
