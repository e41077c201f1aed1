"""The names that a piece of Python binds: what they mean is its own business."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.python.statements import nodes_of

_BINDING = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.arg, ast.ExceptHandler}
    | {ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Global, ast.Nonlocal, ast.ImportFrom}
)
_SETTERS = frozenset({"setattr", "object", "setitem", "delattr"})


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yields every name that is bound other than by an absolute import."""
    for node in nodes_of(tree):
        if type(node) not in _BINDING:  # most are none of them, and to ask one by one is slow
            continue
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from (each.asname or each.name for each in node.names)


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields what each name means that an absolute import binds, as a dotted name."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.split(".")[0]
                yield (each.asname, each.name) if each.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def set_attributes(tree: ast.AST) -> set[str]:
    """Returns the attributes that the code sets on whatever it holds, `setattr` and mocks too."""
    found: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and _callee(node.func) in _SETTERS:
            words = (each.value for each in node.args if isinstance(each, ast.Constant))
            found.update(each for each in words if isinstance(each, str))
    return found


def _callee(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
