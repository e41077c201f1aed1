"""What references carry: lines of a file, a name of code."""

from __future__ import annotations

from typing import NamedTuple


class Anchor(NamedTuple):
    """Lines of a file.

    Args:
        path: The file as the text names it.
        line: The first line.
        end: The last line.
        symbol: What the text claims is there, or empty.
        shown: The code that the text shows of it, or empty.
        around: What else its sentence names.
        is_rough: Whether the numbers are given as near ones.
    """

    path: str
    line: int
    end: int
    symbol: str
    shown: str
    around: tuple[str, ...] = ()
    is_rough: bool = False


class Symbol(NamedTuple):
    """A name of code.

    Args:
        name: The name, dotted or not.
        call: The parentheses behind it with what is in them, or empty.
        file: The file that it is said to be in, or empty.
    """

    name: str
    call: str = ""
    file: str = ""
