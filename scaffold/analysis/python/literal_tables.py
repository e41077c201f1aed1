"""The literal tables of a module: dicts and lists of strings, with all that is added to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scaffold.analysis.python.statements import all_nodes, dotted_name, statements


@dataclass(slots=True)
class LiteralTable:
    """One table of strings.

    Args:
        entries: The string keys with their values; an element of a list has no value.
        is_complete: Whether all that it can ever hold is literal.
    """

    entries: list[tuple[str, ast.expr | None]] = field(
        default_factory=list[tuple[str, ast.expr | None]]
    )
    is_complete: bool = True

    def add(self, value: ast.expr | None, known: dict[str, LiteralTable]) -> None:
        """Add what an expression holds; one that is not literal makes the table incomplete."""
        for part in _united(value):
            if isinstance(part, ast.Dict):
                self._add_dict(part, known)
            elif isinstance(part, (ast.List, ast.Tuple, ast.Set)):
                self._add_elements(part.elts, known)
            elif not self._add_derived(part, known):
                self.is_complete = False

    def _add_dict(self, node: ast.Dict, known: dict[str, LiteralTable]) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            # `**other` inside a dict display has no key in the tree.
            if key is None:
                self.add(value, known)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.entries.append((key.value, value))
            else:
                self.is_complete = False

    def _add_elements(self, nodes: Sequence[ast.expr], known: dict[str, LiteralTable]) -> None:
        for each in nodes:
            if isinstance(each, ast.Starred):
                self.add(each.value, known)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                self.entries.append((each.value, None))
            elif isinstance(each, ast.Tuple) and each.elts and _text(each.elts[0]):
                # [("Name", "module"), ...] is a dict in another dress.
                rest = ast.Tuple(each.elts[1:], ast.Load())
                self.entries.append((_text(each.elts[0]), rest))
            else:
                self.is_complete = False

    def _add_derived(self, node: ast.expr, known: dict[str, LiteralTable]) -> bool:
        """Add what ``set(a)``, ``list(a)`` or a comprehension over known tables can hold."""
        if not isinstance(node, (ast.Name, ast.Call, ast.DictComp, ast.SetComp, ast.ListComp)):
            return False
        if isinstance(node, ast.Call) and not _is_copy(node):
            return False
        names = [each.id for each in all_nodes(node) if isinstance(each, ast.Name)]
        sources = [known[name] for name in names if name in known]
        for source in sources:
            self.entries += source.entries
            self.is_complete = self.is_complete and source.is_complete
        # {last(target): target for target in table.values()} has keys that nobody wrote down.
        self.is_complete = self.is_complete and (
            isinstance(node, ast.Name | ast.Call) or _same(node)
        )
        if isinstance(node, ast.Call) and not sources:
            for each in node.args:
                self.add(each, known)
            for word in node.keywords:
                if word.arg is not None:
                    self.entries.append((word.arg, word.value))
            return True
        return bool(sources)


def read_literal_tables(tree: ast.Module) -> dict[str, LiteralTable]:
    """Read the literal tables that a module's own statements fill, by name."""
    tables: dict[str, LiteralTable] = {}
    for node, _ in statements(tree.body):
        for name, value in _fillings(node):
            if name in tables or isinstance(
                value, (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.DictComp, ast.SetComp)
            ):
                tables.setdefault(name, LiteralTable()).add(value, tables)
            elif isinstance(value, (ast.Call, ast.BinOp, ast.Name, ast.ListComp)):
                table = LiteralTable()
                # Any call or sum may be a table; an empty one counts only as a plain copy.
                table.add(value, tables)
                if table.entries or _is_copy(value):
                    tables[name] = table
    return tables


def _fillings(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the name of a table and what a statement puts into it."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _assigned(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        yield from _assigned(node.target, node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _called(node.value)


def _assigned(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id, ast.Dict([target.slice], [value or ast.Constant(None)])


def _called(call: ast.Call) -> Iterator[tuple[str, ast.expr | None]]:
    """Read ``table.update({...})``, ``names.append("x")`` and ``table["key"].extend([...])``."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return
    owner, method, first = call.func.value, call.func.attr, call.args[0]
    value = ast.List([first], ast.Load()) if method in ("append", "add") else first
    if method not in ("append", "add", "extend", "update", "setdefault"):
        return
    if isinstance(owner, ast.Name):
        if method == "setdefault" and len(call.args) > 1:
            value = ast.Dict([first], [call.args[1]])
        yield owner.id, value
    elif isinstance(owner, ast.Subscript) and isinstance(owner.value, ast.Name):
        yield owner.value.id, ast.Dict([owner.slice], [value])
    elif (
        # `table.setdefault("key", []).append("x")`.
        isinstance(owner, ast.Call)
        and isinstance(owner.func, ast.Attribute)
        and isinstance(owner.func.value, ast.Name)
        and owner.func.attr == "setdefault"
        and owner.args
    ):
        yield owner.func.value.id, ast.Dict([owner.args[0]], [value])


def _united(value: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the parts of ``a + b`` and ``a | b``."""
    pending = [] if value is None else [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.BitOr)):
            # Right first: pop() then yields the parts in the order of the text.
            pending += [node.right, node.left]
        else:
            yield node


def _same(node: ast.expr) -> bool:
    """Return whether a comprehension has just the names that are in the tables it goes through.

    They are the keys of one table, or the elements of the lists that are its values.
    """
    if not isinstance(node, ast.DictComp | ast.SetComp | ast.ListComp):
        return False
    made = node.key if isinstance(node, ast.DictComp) else node.elt
    outer, *inner = node.generators
    keys, values = _loop_names(outer)
    for loop in inner:
        # An inner loop over anything but the outer loop's values makes keys that are in no table.
        if not isinstance(loop.iter, ast.Name) or loop.iter.id != values:
            return False
        keys, values = _loop_names(loop)
    return isinstance(made, ast.Name) and made.id == keys


def _loop_names(loop: ast.comprehension) -> tuple[str, str]:
    """Return the variables of a loop that stand for keys, or elements, and for values."""
    first, second = loop.target, None
    if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        first, second = loop.target.elts
    names = [each.id if isinstance(each, ast.Name) else "" for each in (first, second)]
    called = dotted_name(loop.iter.func) if isinstance(loop.iter, ast.Call) else None
    method = (called or "").rpartition(".")[2]
    if method == "values":
        return "", names[0]
    if method in ("items", "keys") or isinstance(loop.iter, ast.Name):
        return names[0], names[1]
    return "", ""


def _is_copy(node: ast.expr | None) -> bool:
    names = ("set", "frozenset", "list", "tuple", "sorted", "dict", "MappingProxyType")
    return isinstance(node, ast.Call) and (dotted_name(node.func) or "").endswith(names)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
