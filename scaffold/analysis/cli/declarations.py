"""What the literal declarations of a command line are and add up to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from scaffold.analysis.cli.commands import Argument, Command, Option

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WORDS = Argument("words", is_required=False, is_repeatable=True)
"""Any words that are no options."""


def declared(
    read: Iterable[Option | Argument | str],
    place: str,
    commands: Mapping[str, Command] | None = None,
    *,
    abbreviates: bool = False,
) -> Command:
    """Return a command of which the options are read.

    Args:
        read: Its options, the arguments of a group, and each reason why there may be more. A
            command that is no group takes any words.
        place: Where it is defined.
        commands: Its commands; None where it is no group.
        abbreviates: Whether the beginning of an option's name stands for it.
    """
    rows = [*dict.fromkeys(read)]
    options = tuple(each for each in rows if isinstance(each, Option))
    why_open = next((each for each in rows if isinstance(each, str)), "")
    arguments = (WORDS,) if commands is None or WORDS in rows else ()
    return Command(
        "", "", options, arguments, commands, bool(why_open), why_open, place, abbreviates
    )


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
