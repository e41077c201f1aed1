"""What the literal declarations of a command line are and add up to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from scaffold.analysis.cli.commands import Command, Option

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WORDS = Option(())
"""Words that are no options, in front of the name of a command."""


def declared(
    read: Iterable[Option | str],
    place: str,
    commands: Mapping[str, Command] | None = None,
    *,
    abbreviates: bool = False,
) -> Command:
    """Return a command of which the options are read.

    Args:
        read: Its options, `WORDS`, and each reason why there may be more.
        place: Where it is defined.
        commands: Its commands; None where it is no group.
        abbreviates: Whether the beginning of an option's name is enough.
    """
    rows = [*dict.fromkeys(read)]
    options = tuple(each for each in rows if isinstance(each, Option) and each.names)
    why_open = next((each for each in rows if isinstance(each, str)), "")
    return Command("", "", options, commands, why_open, place, WORDS in rows, abbreviates)


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
