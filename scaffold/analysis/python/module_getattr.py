"""What a module-level ``__getattr__`` does with a name: gives it, sends on, or refuses it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.python.literal_tables import LiteralTable, read_literal_tables
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.sources import Source
from scaffold.analysis.python.statements import all_nodes, dotted_name

# How many functions are followed from one hook, so that a helper which calls half of the repository
# costs no more.
_MOST_FUNCTIONS = 8

Read = Callable[[str], Source | None]
Find = Callable[[str, str], Found]
"""Find what a name means inside of a file."""
Ends = frozenset[str]
"""How a run of statements can end: ``raise``, ``return`` or ``on`` to the next."""


class Branch(NamedTuple):
    """The part of a ``__getattr__`` that decides on one name.

    Args:
        body: The statements that run for it; none where it comes to a ``raise`` because no table
            holds it.
        target: Where a table sends the name, dotted, or "".
        path: The file of the condition that decides.
        line: Its line.
    """

    body: list[ast.stmt]
    target: str
    path: str
    line: int


def find_branch(
    read: Read, find: Find, path: str, modules: tuple[str, ...], name: str
) -> Branch | None:
    """Follow a module's ``__getattr__`` for one name; None where nothing in it is about it.

    Args:
        read: Gives the sources of the tree.
        find: Finds what a name means in them.
        path: The module.
        modules: Its dotted names.
        name: The name.
    """
    source = read(path)
    if source is None or "__getattr__" not in source.text:
        return None
    # Hooks compare with "name" or with the full "pkg.module.name", some with a colon.
    spellings = {name, *(f"{each}{sign}{name}" for each in modules for sign in ":.")}
    for function, where in _functions(read, find, source):
        tables = read_literal_tables(where.tree)
        for node in ast.walk(function):
            target = _target(node.test, spellings, tables) if isinstance(node, ast.If) else None
            if isinstance(node, ast.If) and target is not None:
                return Branch(node.body, target.replace(":", "."), where.path, node.lineno)
        refusal = _refusal(function, {each for each in tables if tables[each].is_complete})
        if refusal is not None:
            return Branch([], "", where.path, refusal)
    return None


def refuses_unknown_names(function: ast.FunctionDef, tables: Collection[str]) -> bool:
    """Return whether a ``__getattr__`` raises for every name outside these tables.

    The body is followed with a name that equals no literal and is in no table: conditions on it
    are then known, and every way through has to end in a ``raise``.

    Args:
        function: The ``def __getattr__``.
        tables: The names of literal tables that hold no more than their literals.
    """
    given = [*function.args.posonlyargs, *function.args.args]
    if len(given) != 1:
        return False
    return _Walk(given[0].arg, set(tables)).ends(function.body) == frozenset({"raise"})


def _refusal(function: ast.AST, tables: Collection[str]) -> int | None:
    """Return the line of the last ``raise`` where a function refuses all names but its tables'."""
    if not isinstance(function, ast.FunctionDef):
        return None
    if isinstance(function.body[-1], ast.Return):
        inner = [each for each in function.body if isinstance(each, ast.FunctionDef)]
        function = inner[0] if len(inner) == 1 else function  # what a factory makes
    nodes = all_nodes(function)
    # A helper that does nothing but raise is called after a choice that is made elsewhere.
    chooses = any(isinstance(each, ast.If) for each in nodes)
    if not chooses or not refuses_unknown_names(function, tables):
        return None
    return max(each.lineno for each in nodes if isinstance(each, (ast.Raise, ast.If)))


def _functions(read: Read, find: Find, source: Source) -> Iterator[tuple[ast.AST, Source]]:
    """Yield the hook, what makes it, and what it calls, each with its source."""
    pending: list[tuple[ast.AST, Source]] = []
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            pending.append((node, source))
        # `__getattr__, __dir__ = attach(...)`: the target may be a tuple.
        elif isinstance(node, ast.Assign) and "getattr" in ast.unparse(node.targets[0]):
            pending.append((node.value, source))
    seen: set[int] = set()
    # Breadth first, so that the limit cuts the farthest helpers.
    while pending and len(seen) < _MOST_FUNCTIONS:
        node, where = pending.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, where
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
                found = find(where.path, each.func.id)
                inner = read(found.path) if found.path and found.kind == "function" else None
                definition = inner.definitions.get(found.line or 0) if inner else None
                if inner is not None and definition is not None:
                    pending.append((definition, inner))


def _target(test: ast.expr, spellings: set[str], tables: dict[str, LiteralTable]) -> str | None:
    """Return what a condition's table has for the name, "" for a bare match; None for none."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    right = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq) and isinstance(right, ast.Constant):
        return "" if right.value in spellings else None
    if not isinstance(test.ops[0], ast.In):
        return None
    if isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute):
        right = right.func.value  # `table.keys()`
    table = LiteralTable()
    if isinstance(right, ast.Name):
        table = tables.get(right.id, table)
    else:
        table.add(right, tables)
    for key, value in table.entries:
        if key in spellings:
            text = value.value if isinstance(value, ast.Constant) else None
            return text if isinstance(text, str) else ""
    return None


class _Walk:
    """A walk through statements for one unknown name.

    Args:
        name: The parameter that holds the name.
        tables: The variables that hold tables, or parts of them, without the name.
    """

    def __init__(self, name: str, tables: set[str]) -> None:
        self._name = name
        self._tables = tables
        self._nothing: set[str] = set()

    def ends(self, body: Sequence[ast.stmt]) -> Ends:
        """Return how a body can end."""
        found: set[str] = set()
        for node in body:
            now = self._statement(node)
            found |= now - {"on"}
            if "on" not in now:
                return frozenset(found)
        return frozenset(found | {"on"})

    def _statement(self, node: ast.stmt) -> Ends:
        if isinstance(node, ast.Raise):
            return frozenset({"raise"})
        if isinstance(node, ast.Return):
            # `return TABLE[name]` raises KeyError for a name that is in no table.
            return frozenset({"raise" if self._fails(node.value) else "return"})
        if isinstance(node, ast.If):
            return self._branch(node)
        if isinstance(node, ast.Try):
            return self._attempt(node)
        if isinstance(node, ast.With):
            return self.ends(node.body)
        if isinstance(node, ast.For):
            return self._loop(node)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self._assignment(node.targets[0], node.value)
        if isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom, ast.Global, ast.AnnAssign)):
            return frozenset({"on"})
        # Unknown statements (while, match, nested def) must not count as a refusal.
        return frozenset({"on", "return"})

    def _branch(self, node: ast.If) -> Ends:
        truth = self._truth(node.test)
        if truth is True:
            return self.ends(node.body)
        if truth is False:
            return self.ends(node.orelse)
        before = set(self._nothing)
        return self.ends(node.body) | self._other_way(node.orelse, before)

    def _other_way(self, body: Sequence[ast.stmt], before: set[str]) -> Ends:
        """Follow a body that runs in the place of the last one; what both leave nothing stays."""
        passed, self._nothing = self._nothing, set(before)
        found = self.ends(body)
        self._nothing = passed & self._nothing if "on" in found else passed
        return found

    def _attempt(self, node: ast.Try) -> Ends:
        before = set(self._nothing)
        inner = self.ends(node.body)
        before &= self._nothing
        # A handler is assumed to catch, so its end replaces the raise; any call may raise as well.
        found = set(inner - ({"on", "raise"} if node.handlers else {"on"}))
        if "on" in inner:
            found |= self.ends(node.orelse)
        for handler in node.handlers:
            found |= self._other_way(handler.body, before)
        last = self.ends(node.finalbody)
        return frozenset(found) if last == frozenset({"on"}) else frozenset(found | last)

    def _loop(self, node: ast.For) -> Ends:
        # A part of a table without the name lacks the name as well.
        if self._is_table(node.iter):
            for each in all_nodes(node.target):
                if isinstance(each, ast.Name):
                    self._tables.add(each.id)
        # The loop may run no time at all.
        before = set(self._nothing)
        found = self.ends(node.body) | {"on"}
        self._nothing &= before
        return found | self.ends(node.orelse)

    def _assignment(self, target: ast.expr, value: ast.expr) -> Ends:
        if self._fails(value):
            return frozenset({"raise"})
        if isinstance(target, ast.Name):
            if self._is_nothing(value):
                self._nothing.add(target.id)
            else:
                self._nothing.discard(target.id)
        return frozenset({"on"})

    def _fails(self, value: ast.expr | None) -> bool:
        """Return whether an expression looks the name up in a table, which raises ``KeyError``."""
        return value is not None and any(
            isinstance(each, ast.Subscript)
            and self._is_name(each.slice)
            and self._is_table(each.value)
            for each in all_nodes(value)
        )

    def _is_nothing(self, value: ast.expr) -> bool:
        """Return whether an expression is ``table.get(name)`` without a default."""
        if isinstance(value, ast.Name):
            return value.id in self._nothing
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        method, args = value.func.attr, value.args
        default = len(args) == 1 or (isinstance(args[-1], ast.Constant) and not args[-1].value)
        return (
            method == "get"
            and default
            and self._is_name(args[0])
            and self._is_table(value.func.value)
        )

    def _truth(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            truth = self._truth(test.operand)
            return None if truth is None else not truth
        if isinstance(test, ast.BoolOp):
            parts = [self._truth(each) for each in test.values]
            decisive = isinstance(test.op, ast.Or)
            # Short-circuit: one decisive part settles it even beside unknown ones.
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        if isinstance(test, ast.NamedExpr):
            # `(found := table.get(name))` is tested by the value it binds.
            self._assignment(test.target, test.value)
            test = test.target
        if isinstance(test, ast.Name) and test.id in self._nothing:
            return False
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        return None

    def _compared(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> bool | None:
        if isinstance(left, ast.NamedExpr):
            self._assignment(left.target, left.value)
            left = left.target
        if self._is_name(left) and (
            (isinstance(sign, (ast.In, ast.NotIn)) and self._is_table(right))
            or (isinstance(sign, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant))
        ):
            # The name is in no table and equals no literal: `in` and `==` are false, their
            # opposites true.
            return isinstance(sign, (ast.NotIn, ast.NotEq))
        is_none = isinstance(right, ast.Constant) and right.value is None
        if isinstance(left, ast.Name) and left.id in self._nothing and is_none:
            return isinstance(sign, (ast.Is, ast.Eq))
        return None

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._name

    def _is_table(self, node: ast.expr) -> bool:
        """Return whether an expression is a known table, a part of one, or a literal one."""
        if isinstance(node, ast.Name):
            return node.id in self._tables
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and not node.args:
                return node.func.attr in ("items", "keys", "values") and self._is_table(
                    node.func.value
                )
            if dotted_name(node.func) == "globals":
                return True  # the hook is asked for what the module does not have
            copies = ("set", "list", "tuple", "frozenset", "sorted")
            return dotted_name(node.func) in copies and all(map(self._is_table, node.args))
        if isinstance(node, ast.BinOp):
            return self._is_table(node.left) and self._is_table(node.right)
        elements = getattr(node, "elts", getattr(node, "keys", None))
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)) and elements:
            return all(isinstance(each, ast.Constant) for each in elements)
        return False
