"""The statements of one scope, and the dotted names in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

_PLAIN = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "asname", "module", "level", "kind", "conversion"}
    | {"type_comment", "is_async", "simple"}
)
"""The fields that hold texts, numbers and operators, and never an expression or a statement."""

_COMPOUND = frozenset(
    {ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar}
    | {ast.Match}
)
"""The statements of a scope that hold others of the same scope."""

ALWAYS, SOMETIMES, FOR_TYPES = range(3)
"""When a statement runs: at every import, under a condition, or for type checkers only."""


def statements(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, int]]:
    """Yield every statement of one scope in order, and when it runs."""
    pending: list[tuple[ast.stmt, int]] = [(each, ALWAYS) for each in reversed(body)]
    while pending:
        pair = pending.pop()
        yield pair
        # Most statements hold no others, and to ask each for its parts costs most of the time.
        if type(pair[0]) in _COMPOUND:
            for part, part_typed in reversed(list(_parts(*pair))):
                pending.extend((each, part_typed) for each in reversed(part))


def all_nodes(top: ast.AST) -> list[ast.AST]:
    """Return a node and those below it in the order of ``ast.walk``, at a third of its cost.

    Operators and the marks of reading and writing are left out: nobody asks for them.
    """
    found = [top]
    for node in found:  # it grows while it is read
        kind = type(node)
        if kind not in _fields:
            _fields[kind] = _fields_of(kind)
        for name in _fields[kind]:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in cast("list[Any]", value) if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@lru_cache(maxsize=64)
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return the same for a small tree, and keep it: a block of code is asked for again."""
    return tuple(all_nodes(tree))


_fields: dict[type[ast.AST], tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind is ast.Constant:
        return ()
    return tuple(each for each in kind._fields if each not in _PLAIN)


def dotted_name(node: ast.expr | None) -> str | None:
    """Return ``a.b.c`` for such an expression; None for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def source_is(node: ast.expr, names: frozenset[str]) -> bool:
    """Return whether an expression is one of these dotted names."""
    return dotted_name(node) in names


def _parts(node: ast.stmt, typed: int) -> Iterator[tuple[list[ast.stmt], int]]:
    if isinstance(node, ast.If):
        # The stronger condition wins where blocks are nested; the levels are ordered.
        for_types = (dotted_name(node.test) or "").rpartition(".")[2] == "TYPE_CHECKING"
        guarded = FOR_TYPES if for_types else SOMETIMES
        yield node.body, max(typed, guarded)
        yield node.orelse, max(typed, SOMETIMES)
        return
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, []), typed
        if name == "body":
            # Handlers follow the body and precede `else`, as in the text; later bindings win.
            for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield handler.body, typed
