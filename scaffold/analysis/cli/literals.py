"""Values that are written out in a source, directly or as a constant of the repository."""

from __future__ import annotations

import ast
from typing import Any

from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources

Assignment = ast.Assign | ast.AnnAssign
_LIST_MAKERS = frozenset({"list", "sorted", "tuple", "set", "frozenset"})
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


class Literals:
    """Values of constants, looked up across the modules of a repository.

    Args:
        sources: The sources of the repository.
        python: Its names.
    """

    def __init__(self, sources: Sources, python: PythonIndex) -> None:
        self._sources = sources
        self._python = python

    def assigned(self, name: str, source: Source) -> tuple[Assignment, Source] | None:
        """Return the one assignment, at the top of a module, that gives a name its value."""
        found = [each for each in source.tree.body if _assigns(each, name)]
        if found or not all(part.isidentifier() for part in name.split(".")):
            # With two assignments, the value depends on which one ran last.
            node = found[0] if len(found) == 1 else None
            return (node, source) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        there = self._python.find_in(source.path, name)
        other = self._sources.get(there.path) if there.path and there.exists else None
        if other is None or other is source:
            return None
        for each in other.tree.body:
            if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.lineno == there.line:
                return each, other
        return None

    def value(self, node: ast.expr | None, source: Source) -> Any:
        """Return the value of a literal, a constant, or a list or range made of one."""
        if isinstance(node, ast.Call):
            return self._made(node, source)
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.assigned(ast.unparse(node), source)
            return None if found is None else literal(found[0].value)
        return literal(node)

    def _made(self, call: ast.Call, source: Source) -> Any:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "keys":
            return self.value(call.func.value, source)
        made = self.value(call.args[0], source) if call.args else None
        name = source.dotted(call.func)
        if name == "range":
            limits = [literal(each) for each in call.args]
            if all(isinstance(each, int) for each in limits) and 0 < len(limits) < 4:
                # Slicing the range first keeps range(10**9) from becoming a list.
                return list(range(*limits)[:_MOST_CHOICES])
        return made if name in _LIST_MAKERS and len(call.args) == 1 else None

    def choices(self, node: ast.expr | None, source: Source) -> tuple[str, ...]:
        """Return the texts of a literal list; none where it is long or holds other things."""
        given = self.value(node, source)
        if not isinstance(given, (list, tuple, set, frozenset, dict)):
            return ()
        rows: list[Any] = [*given]
        is_plain = all(isinstance(each, (str, int, float)) for each in rows)
        return tuple(str(each) for each in rows) if is_plain and len(rows) < _MOST_CHOICES else ()


def _assigns(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    target = node.target if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else None
    return isinstance(target, ast.Name) and target.id == name
