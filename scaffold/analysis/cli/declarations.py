"""What the literal declarations of a command line are and add up to."""

from __future__ import annotations

import ast
from typing import Any

from scaffold.analysis.cli.commands import Argument, Command, Option

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_CHOICES = 500


class Declared:
    """What a command takes as far as it is declared; the first doubt makes it open.

    Args:
        place: Where it is defined.
        abbreviates: Whether the beginning of an option's name stands for it.
    """

    def __init__(self, place: str, *, abbreviates: bool = False) -> None:
        self.place = place
        self.options: list[Option] = []
        self.arguments: list[Argument] = []
        self.commands: dict[str, Declared] | None = None
        self.why_open = ""
        self._abbreviates = abbreviates

    def add(self, read: Option | Argument | str) -> None:
        """Add one parameter; a text is the reason why there may be more."""
        if isinstance(read, Option):
            self.options.append(read)
        elif isinstance(read, Argument):
            self.arguments.append(read)
        else:
            self.why_open = self.why_open or read

    def command(self, name: str = "", above: tuple[Declared, ...] = ()) -> Command:
        """Return the command under the name that calls it, with its commands."""
        if self in above:
            return Command(name, is_open=True, why_open="it is a command of itself")
        commands = None
        if self.commands is not None:
            commands = {k: v.command(k, (*above, self)) for k, v in self.commands.items()}
        return Command(
            name, "", tuple(self.options), tuple(self.arguments), commands,
            bool(self.why_open), self.why_open, self.place, self._abbreviates,
        )  # fmt: skip


def literal(node: ast.expr | None) -> Any:
    """Return a value that is written out; None for any other."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the expression of a keyword."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def choices(node: ast.expr | None) -> tuple[str, ...]:
    """Return the texts of a literal list; none where it is long or holds other things."""
    given = literal(node)
    rows: list[Any] = [*given] if isinstance(given, (list, tuple, set, dict)) else []
    is_plain = all(isinstance(each, (str, int, float)) for each in rows)
    return tuple(str(each) for each in rows) if is_plain and len(rows) < _MOST_CHOICES else ()
