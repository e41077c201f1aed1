"""The types that an annotation names, through quotes, unions, ``Optional`` and the like."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import reduce

_ALIASES = frozenset({"Dict", "FrozenSet", "List", "Set", "Tuple", "Type"})
_FIRST = frozenset({"Optional", "Annotated", "Final", "ClassVar"})


def sides_of(annotation: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the types that a value may be of; ``None`` is left out.

    A generic type such as ``list[int]`` is given as it is.
    """
    match annotation:
        case None | ast.Constant(value=None):
            return
        case ast.Constant(value=str(text)):
            yield from sides_of(quoted(text))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from (*sides_of(left), *sides_of(right))
        case ast.Subscript(value=outer, slice=inner) if _last(outer) in (*_FIRST, "Union"):
            parts = inner.elts if isinstance(inner, ast.Tuple) and inner.elts else [inner]
            for each in parts if _last(outer) == "Union" else parts[:1]:
                yield from sides_of(each)
        case _:
            yield annotation


class _Plain(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return (quoted(node.value) if isinstance(node.value, str) else None) or node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        outer = _last(node.value)
        if outer == "Literal":
            return node
        self.generic_visit(node)
        if outer not in ("Optional", "Union"):
            return node
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        more = [ast.Constant(None)] if outer == "Optional" else []
        return reduce(lambda one, other: ast.BinOp(one, ast.BitOr(), other), [*inner, *more])

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(node.id.lower()) if node.id in _ALIASES else node


def spelled(annotation: ast.expr) -> str:
    """Return an annotation as text, without quotes and in the words of Python 3.10.

    An annotation that is only written otherwise, as by pyupgrade, has the same text.
    """
    return ast.unparse(_Plain().visit(ast.parse(ast.unparse(annotation), mode="eval")))


def quoted(text: str) -> ast.expr | None:
    """Return the type that a text names; None where it is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
