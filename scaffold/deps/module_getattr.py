"""What a module-level ``__getattr__`` does with one name: gives it, sends on, or refuses it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source
from scaffold.deps.deprecation_texts import has_warning, raised_text

_MOST_FUNCTIONS = 8

Read = Callable[[str], Source | None]


@dataclass(frozen=True)
class Given:
    """Is what a ``__getattr__`` does with a name.

    Args:
        is_refused: Whether it raises.
        text: The words of the error or warning.
        target: Where a table says that the name is now, dotted, or "".
        path: The file of the condition that decides.
        line: Its line.
    """

    is_refused: bool
    text: str
    target: str
    path: str
    line: int


def given_on_first_use(
    read: Read, index: PythonIndex, path: str, modules: tuple[str, ...], name: str
) -> Given | None:
    """Follows a module's ``__getattr__`` for one name; None where nothing in it is about it.

    Args:
        read: Gives the sources of the release.
        index: Its names.
        path: The module.
        modules: Its dotted names.
        name: The name.
    """
    source = read(path)
    if source is None or "__getattr__" not in source.text:
        return None
    spellings = {name, *(f"{each}{sign}{name}" for each in modules for sign in ":.")}
    for function, where in _functions(read, index, source):
        for node in ast.walk(function):
            if isinstance(node, ast.If):
                table = _holds(node.test, spellings, where)
                if table is not None:
                    return _answer(node, table, where)
        refusal = _last_refusal(function, where)
        if refusal is not None:
            text = f"no table of {where.path} gives {name!r}"
            return Given(True, text, "", where.path, refusal.lineno)
    return None


def _last_refusal(function: ast.AST, where: Source) -> ast.Raise | None:
    """Returns the ``raise`` that a name in none of the tables comes to; None where it may not.

    Every condition before it has to be on a literal table, or on the names that the module has.
    """
    body: list[ast.stmt] = getattr(function, "body", [])
    if isinstance(function, ast.FunctionDef) and isinstance(body[-1], ast.Return):
        inner = [each for each in body if isinstance(each, ast.FunctionDef)]
        body = inner[0].body if len(inner) == 1 else body  # what a factory makes
    last = body[-1] if body else None
    if not isinstance(last, ast.Raise):
        return None
    tests = [each.test for each in body if isinstance(each, ast.If)]
    is_known = all(_is_table(each, where) or "globals" in ast.unparse(each) for each in tests)
    return last if tests and is_known else None


def _is_table(test: ast.expr, where: Source) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    right = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return isinstance(right, ast.Constant)
    if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute):
        right = right.func.value
    table = _table(right, where)
    return isinstance(test.ops[0], ast.In) and isinstance(
        table, (ast.Dict, ast.Set, ast.List, ast.Tuple)
    )


def _answer(node: ast.If, target: str, where: Source) -> Given:
    refused = raised_text(node.body)
    if refused is not None:
        return Given(True, refused, "", where.path, node.lineno)
    warned = has_warning(node.body)
    moved = target.replace(":", ".")
    text = warned or (f"it is given from {moved}" if moved else "")
    return Given(False, text, moved, where.path, node.lineno)


def _functions(read: Read, index: PythonIndex, source: Source) -> Iterator[tuple[ast.AST, Source]]:
    """Yields the hook, what makes it, and what it calls, each with its source."""
    pending: list[tuple[ast.AST, Source]] = []
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            pending.append((node, source))
        elif isinstance(node, ast.Assign) and "getattr" in ast.unparse(node.targets[0]):
            pending.append((node.value, source))
    seen: set[int] = set()
    while pending and len(seen) < _MOST_FUNCTIONS:
        node, where = pending.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, where
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                found = index.find_in(where.path, each.func.id)
                inner = read(found.path) if found.path and found.kind == "function" else None
                definition = inner.definitions.get(found.line or 0) if inner else None
                if inner is not None and definition is not None:
                    pending.append((definition, inner))


def _holds(test: ast.expr, spellings: set[str], where: Source) -> str | None:
    """Returns what a condition's table has for the name, "" for a bare match; None for none."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    right = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq) and isinstance(right, ast.Constant):
        return "" if right.value in spellings else None
    if not isinstance(test.ops[0], ast.In):
        return None
    if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute):
        right = right.func.value
    table = _table(right, where)
    if isinstance(table, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in spellings:
                text = value.value if isinstance(value, ast.Constant) else None
                return text if isinstance(text, str) else ""
        return None
    rows = table.elts if isinstance(table, (ast.Set, ast.List, ast.Tuple)) else []
    is_listed = any(isinstance(each, ast.Constant) and each.value in spellings for each in rows)
    return "" if is_listed else None


def _table(node: ast.expr, where: Source) -> ast.expr | None:
    if not isinstance(node, ast.Name):
        return node
    for each in where.tree.body:
        targets = each.targets if isinstance(each, ast.Assign) else []
        targets = [each.target] if isinstance(each, ast.AnnAssign) else targets
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and any(
            isinstance(target, ast.Name) and target.id == node.id for target in targets
        ):
            return each.value
    return None
