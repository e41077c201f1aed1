"""What the code that builds a parser handles, as far as following its text can tell."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from scaffold.analysis.cli.argparse_parser import Literal
from scaffold.analysis.python.sources import Source

MOST_TURNS = 60
"""Longer loops are followed once, as if what they run over were unknown."""

Value = Any
"""A Parser, Subparsers, Literal, Function, Class, Object, Argv, or None for anything else."""


@dataclass(frozen=True)
class Function:
    """Is a function of the repository, with the object it is a method of."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    source: Source
    owner: Object | None = None


@dataclass(frozen=True)
class Class:
    """Is a class of the repository."""

    node: ast.ClassDef
    source: Source


@dataclass(eq=False)
class Object:
    """Is an object of such a class, with what its attributes hold."""

    kind: Class
    values: dict[str, Value] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Argv:
    """Is `sys.argv` or the part of it behind the program's name."""


@dataclass
class Scope:
    """Is the names of a module or of one call, and what the call gives back."""

    source: Source
    names: dict[str, Value]
    returned: list[Value] = field(default_factory=list[Any])


def rows_of(value: Value) -> list[Value] | None:
    """Returns the items of a list that is written out."""
    if isinstance(value, tuple):
        return list(cast("tuple[Value, ...]", value))
    items = items_of(value)
    return None if items is None else [Literal(each) for each in items]


def items_of(value: Value) -> list[Any] | None:
    """Returns what a literal list, set or table holds."""
    plain: Any = value.value if isinstance(value, Literal) else None
    is_many = isinstance(plain, (list, tuple, dict, set, frozenset))
    return list(cast("Iterable[Any]", plain)) if is_many else None


def texts_of(value: Any) -> list[str]:
    """Returns the texts of a list."""
    return [each for each in items_of(Literal(value)) or [] if isinstance(each, str)]


def sum_of(left: Value, right: Value) -> Value:
    """Adds two literals."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        try:
            return Literal(left.value + right.value)
        except TypeError:
            return None
    return None


def list_of(maker: str, value: Value) -> Value:
    """Returns what `list`, `sorted` and the like make of a value."""
    rows = items_of(value)
    if rows is None:
        return cast("tuple[Value, ...]", value) if isinstance(value, tuple) else None
    try:
        return Literal(sorted(rows) if maker == "sorted" else rows)
    except TypeError:
        return None


def range_of(limits: list[Any]) -> Value:
    """Returns what `range` makes of its limits."""
    try:
        numbers = range(*limits)
    except (TypeError, ValueError):
        return None
    return Literal(list(numbers)) if len(numbers) <= MOST_TURNS else None


def is_literal(node: ast.expr) -> bool:
    """Tells whether an expression is written out."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
