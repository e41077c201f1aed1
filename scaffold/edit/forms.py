"""The forms that a literal registry takes, and the entries in it with their offsets.

A form is a display (``{...}``, ``[...]``, ``(...)``), a call that wraps one (``frozenset({...})``,
``OrderedDict([("a", "b")])``), keywords (``dict(a="b")``) or an empty call (``set()``). Entries
that cannot be compared, such as ``*OTHER``, have no key; they are kept where they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice

from scaffold.edit.layout import Brackets, Element, skip_layout
from scaffold.edit.python_file import PythonFile, indent_unit

Kind = Choice["dict", "keywords", "pairs", "list", "tuple", "set", "call"]

# Only the last name of a callee is compared, so `collections.OrderedDict` and aliases of the
# module are known too.
_TABLES = {"dict", "OrderedDict", "defaultdict", "MappingProxyType", "frozendict", "immutabledict"}
# MappingProxyType takes one mapping and no keywords.
_KEYWORD_TABLES = _TABLES - {"MappingProxyType"}
_COLLECTIONS = {"list", "tuple", "set", "frozenset", "sorted", "OrderedSet"}
EMPTY_CALLS = {"list", "tuple", "set", "frozenset", "OrderedSet"}
"""Collections that are empty when called without an argument."""


@dataclass(frozen=True)
class Item(Element):
    """One entry, with the parentheses around it.

    Args:
        key_node: The key's expression; None for ``*OTHER`` and the like.
        value_node: The key's value; None where there are keys only.
        key: Its key, or None where it has none that could be compared.
    """

    key_node: ast.expr | None
    value_node: ast.expr | None
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Literal(Brackets):
    """One literal; a tuple may be without brackets.

    Args:
        kind: What it is.
        node: The display or call.
        outer: The call that takes the display as its argument, or None.
    """

    items: tuple[Item, ...]
    file: PythonFile
    kind: Kind
    node: ast.expr
    outer: ast.Call | None

    @property
    def unit(self) -> bytes:
        return indent_unit(self.file)


@dataclass(frozen=True)
class _Entry:
    key: ast.expr | None
    value: ast.expr | None
    node: ast.expr | ast.keyword


def callee(call: ast.Call | None) -> str:
    """Return the last name of what is called, or nothing."""
    func = call.func if call is not None else None
    return func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")


def dict_displays(value: ast.expr | None) -> Iterator[ast.Dict]:
    """Yield the ``{...}`` that a value is made of, within the calls that may wrap it."""
    if isinstance(value, ast.Dict):
        yield value
    # The mapping is the last argument of all of them: `cast("dict[str, str]", {...})`,
    # `defaultdict(list, {...})`.
    elif isinstance(value, ast.Call) and callee(value) in _TABLES | {"cast"}:
        yield from dict_displays(value.args[-1] if value.args else None)


def read_literal(file: PythonFile, value: ast.expr, shape: str) -> Literal | None:
    """Return the literal that a value is, its entries without keys yet; None where it is none.

    Args:
        file: The file that the value is in.
        value: The expression.
        shape: "dict" or "list".
    """
    form = _table(value, None) if shape == "dict" else _collection(value, None)
    if form is None:
        return None
    kind, node, outer = form
    # ast keeps the positional arguments of a call apart from its keywords, whatever their order.
    entries = sorted(_entries(kind, node), key=lambda entry: file.end(entry.node))
    is_bare = isinstance(node, ast.Tuple) and _is_bare(file, node)
    inside, close = file.start(node) + 1, file.end(node) - 1
    if is_bare:
        inside, close = inside - 1, close + 1
    elif isinstance(node, ast.Call):
        inside = _argument_start(file, node)
    items = _items(file, entries, inside, close)
    if items is None:
        return None
    return Literal(
        raw=file.raw,
        inside=inside,
        close=close,
        items=items,
        is_bare=is_bare,
        file=file,
        kind=kind,
        node=node,
        outer=outer,
    )


_Form = tuple[Kind, ast.expr, ast.Call | None]


def _table(value: ast.expr, outer: ast.Call | None) -> _Form | None:
    if isinstance(value, ast.Dict):
        return "dict", value, outer
    if not isinstance(value, ast.Call):
        return None
    name = callee(value)
    if name == "cast" and len(value.args) == 2:
        return _table(value.args[1], value)
    if name not in _TABLES:
        return None
    # The first argument of defaultdict makes what is missing, and holds no entries.
    args = value.args[1:] if name == "defaultdict" else value.args
    if len(args) == 1 and not value.keywords:
        if isinstance(args[0], ast.List | ast.Tuple | ast.Set):
            is_pairs = all(isinstance(each, ast.Starred) or _pair(each) for each in args[0].elts)
            return ("pairs", args[0], value) if is_pairs else None
        return _table(args[0], value)
    is_literal = any(isinstance(each, ast.Dict | ast.List | ast.Tuple | ast.Set) for each in args)
    # `dict(OTHER)` copies a table that is elsewhere; `dict(OTHER, a="b")` has entries of its own.
    if name not in _KEYWORD_TABLES or is_literal or (args and not value.keywords):
        return None
    return "keywords", value, outer


def _collection(value: ast.expr, outer: ast.Call | None) -> _Form | None:
    match value:
        case ast.List():
            return "list", value, outer
        case ast.Tuple():
            return "tuple", value, outer
        case ast.Set():
            return "set", value, outer
        case ast.Call(args=[_, inner], keywords=[]) if callee(value) == "cast":
            return _collection(inner, value)
        case ast.Call(args=[inner], keywords=[]) if callee(value) in _COLLECTIONS:
            return _collection(inner, value)
        case ast.Call(args=[], keywords=[]) if callee(value) in EMPTY_CALLS:
            return "call", value, outer
        case _:
            return None


def _pair(node: ast.expr) -> ast.Tuple | ast.List | None:
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
        return node
    return None


def _entries(kind: Kind, node: ast.expr) -> Iterator[_Entry]:
    if isinstance(node, ast.Dict):
        # The key of `**OTHER` is None.
        for key, value in zip(node.keys, node.values, strict=True):
            yield _Entry(key, value, value)
    elif isinstance(node, ast.Call):
        yield from (_Entry(None, None, each) for each in node.args)
        for keyword in node.keywords:
            name = ast.Constant(keyword.arg) if keyword.arg is not None else None
            yield _Entry(name, keyword.value, keyword)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for each in node.elts:
            pair = _pair(each) if kind == "pairs" else None
            if isinstance(each, ast.Starred):
                yield _Entry(None, None, each)
            elif pair is not None:
                yield _Entry(pair.elts[0], pair.elts[1], each)
            else:
                yield _Entry(each, None, each)


def _items(
    file: PythonFile, entries: list[_Entry], inside: int, close: int
) -> tuple[Item, ...] | None:
    items: list[Item] = []
    after = inside
    for entry in entries:
        # A node begins behind the parentheses around it, so the start is taken from the text
        # instead.
        start, end = skip_layout(file.raw, after), file.end(entry.node)
        end, comma = _end_and_comma(file.raw, end, close)
        items.append(Item(start, end, comma, entry.key, entry.value))
        after = items[-1].after
    # Two entries without a comma between them were not understood, and such a literal is left
    # alone.
    if any(item.comma is None for item in items[:-1]):
        return None
    return tuple(items)


def _end_and_comma(raw: bytes, end: int, close: int) -> tuple[int, int | None]:
    """Return where an entry ends, behind parentheses around it, and where its comma is."""
    offset = skip_layout(raw, end)
    while offset < close and raw[offset : offset + 1] == b")":
        end = offset + 1
        offset = skip_layout(raw, end)
    is_comma = offset < close and raw[offset : offset + 1] == b","
    return end, offset if is_comma else None


def _argument_start(file: PythonFile, call: ast.Call) -> int:
    offset = skip_layout(file.raw, file.end(call.func))
    # Brackets around the callee, as in `(dict)(...)`, end behind its node.
    while file.raw[offset : offset + 1] == b")":
        offset = skip_layout(file.raw, offset + 1)
    return offset + 1


def _is_bare(file: PythonFile, node: ast.Tuple) -> bool:
    """Return whether a tuple has no parentheses of its own.

    Those of its first element do not count: ``("a"), "b"``.
    """
    if not node.elts:
        return False
    offset, opened = file.start(node), 0
    first = file.start(node.elts[0])
    while offset < first and file.raw[offset : offset + 1] == b"(":
        opened += 1
        offset = skip_layout(file.raw, offset + 1)
    end, close = file.end(node.elts[0]), file.end(node)
    offset, closed = skip_layout(file.raw, end), 0
    while offset < close and file.raw[offset : offset + 1] == b")":
        closed += 1
        offset = skip_layout(file.raw, offset + 1)
    # Each parenthesis before the first element that is not closed behind it belongs to the tuple.
    return opened <= closed
