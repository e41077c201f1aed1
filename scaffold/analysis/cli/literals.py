"""Values that are written out in a call."""

from __future__ import annotations

import ast
from typing import Any

_MOST_CHOICES = 500


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
