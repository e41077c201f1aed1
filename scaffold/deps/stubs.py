"""Names that a loop over a table binds to a stub: they are there, and raise once they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.python.literal_tables import read_literal_tables
from scaffold.analysis.python.sources import Source
from scaffold.analysis.python.statements import dotted_name
from scaffold.deps.deprecation_texts import raised_text

_NAMESPACES = ("globals", "locals", "vars")


def stub_of(source: Source, name: str) -> tuple[str, int] | None:
    """Return what the use of a name raises that stands for a stub, and the line that binds it.

    Such a name is bound by ``for x in TABLE: globals()[x] = Stub(x)``.
    """
    tables = read_literal_tables(source.tree)
    spaces = {
        target.id
        for each in source.tree.body
        if isinstance(each, ast.Assign) and _is_namespace(each.value)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for loop in source.tree.body:
        if not isinstance(loop, ast.For):
            continue
        table = tables.get(dotted_name(loop.iter) or "")
        if table is None or name not in {key for key, _ in table.entries}:
            continue
        for call, line in _bound(loop, spaces):
            text = _raises(source.tree, dotted_name(call.func) or "")
            if text is not None:
                return text, line
    return None


def _is_namespace(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted_name(node.func) in _NAMESPACES


def _bound(loop: ast.For, spaces: set[str]) -> Iterator[tuple[ast.Call, int]]:
    """Yield the calls whose results a loop puts under its own variable into the namespace."""
    for each in loop.body:
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        if not isinstance(each, ast.Assign) or not isinstance(target, ast.Subscript):
            continue
        is_module = _is_namespace(target.value) or dotted_name(target.value) in spaces
        is_own = ast.unparse(target.slice) == ast.unparse(loop.target)
        if is_module and is_own and isinstance(each.value, ast.Call):
            yield each.value, each.lineno


def _raises(tree: ast.Module, name: str) -> str | None:
    """Return what a method of a class raises, whatever it is called with."""
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and each.name == name:
            methods = [row for row in each.body if isinstance(row, ast.FunctionDef)]
            found = (raised_text(row.body) for row in methods if len(row.body) == 1)
            return next((text for text in found if text is not None), None)
    return None
