"""Which tests of a file pytest runs: the markers of each, and what an expression selects."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.python.statements import dotted_name
from scaffold.syntax import parse

Marks = tuple[frozenset[str], ...]
"""The markers of each test of a file."""


def marks_of(text: str) -> Marks:
    """Return the markers of each test function of a source; none where it does not parse."""
    try:
        return tuple(_tests(parse(text).body, frozenset()))
    except SyntaxError:
        return ()


def selected(marks: Sequence[frozenset[str]], expression: str) -> set[int]:
    """Return which tests an expression such as ``not slow`` selects; all without one."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return {*range(len(marks))}  # no expression, or one that only pytest reads
    return {index for index, each in enumerate(marks) if _holds(tree, each)}


def _tests(body: list[ast.stmt], outer: frozenset[str]) -> Iterator[frozenset[str]]:
    own = (each.value for each in body if isinstance(each, ast.Assign) and _is_pytestmark(each))
    here = outer | {name for value in own for name in _names(value)}
    for each in body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            marks = here | {name for mark in each.decorator_list for name in _names(mark)}
            if isinstance(each, ast.ClassDef):
                yield from _tests(each.body, marks)
            elif each.name.startswith("test"):
                yield marks


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets)


def _names(node: ast.expr) -> Iterator[str]:
    """Yield the names in ``pytest.mark.slow``, ``pytest.mark.skipif(...)`` and lists of them."""
    for each in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
        dotted = dotted_name(each.func if isinstance(each, ast.Call) else each) or ""
        owner, _, name = dotted.rpartition(".")
        if owner in ("pytest.mark", "mark"):
            yield name


def _holds(node: ast.expr, marks: frozenset[str]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(each, marks) for each in values)
        case ast.BoolOp(values=values):
            return any(_holds(each, marks) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _holds(operand, marks)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name in marks
        case _:
            return True
