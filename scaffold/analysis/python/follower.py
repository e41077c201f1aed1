"""What the expressions of one source name: through scopes, annotations, classes and calls."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard, cast

from scaffold.analysis.python.annotations import sides_of
from scaffold.analysis.python.decorators import PROPERTIES
from scaffold.analysis.python.scopes import (
    Bound,
    Function,
    Scope,
    own_nodes,
    read_scope,
)
from scaffold.analysis.python.sources import Source
from scaffold.analysis.python.statements import all_nodes

CALLED = "()"
"""The part of a chain that is a call: what follows is asked of its result."""
ELEMENT = "__getitem__"
"""The method whose call gives an element."""

_DEEPEST = 30
_MOST_BINDINGS = 40
_OPENERS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_BINDERS = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Chain:
    """The names and calls of an expression, from a module on.

    Args:
        parts: Names, and `CALLED` for each call: ``("click", "Context", "()", "exit")``.
        own: The members that classes on the way here bring themselves; they are not of the class
            that is named.
        local: The class through which it is reached, or "".
        is_local: Whether it is that class itself.
    """

    parts: tuple[str, ...]
    own: frozenset[str] = frozenset()
    local: str = ""
    is_local: bool = False

    def member(self, name: str) -> Chain | None:
        """Return what an attribute names; None where a class on the way brings it itself."""
        return None if name in self.own else Chain((*self.parts, name), local=self.local)

    def called(self) -> Chain:
        """Return what a call of it gives."""
        return Chain((*self.parts, CALLED), self.own, self.local)


class Follower(ABC):
    """One source whose expressions are followed to what they name.

    What its imports and classes mean, a subclass decides.

    Args:
        source: The parsed source.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = read_scope(source.tree, None)
        self._scopes: dict[int, Scope] = {id(source.tree): self.module}
        self._names: dict[int, Chain | None] = {}
        self._set_on_self: dict[int, dict[str, list[tuple[Function, ast.expr]]]] = {}
        self._depth = 0

    @abstractmethod
    def imported(self, bound: Bound) -> Chain | None:
        """Return what a name that an import binds refers to."""

    @abstractmethod
    def class_chain(self, node: ast.ClassDef) -> Chain | None:
        """Return what a class of the source refers to."""

    def called(self, chain: Chain) -> Chain | None:
        """Return what a call gives; None where that does not show."""
        return chain.called()

    def top_value(self, name: str) -> Chain | None:
        """Return what a name refers to that the module imports or assigns."""
        bindings = self.module.names.get(name)
        return None if bindings is None else self._bound(bindings, self.module)

    def unknown_member(self, node: ast.Attribute, scope: Scope) -> Chain | None:
        """Return what an attribute is of something that is not followed."""
        return self.set_on_self(node, scope)

    def scope(self, node: ast.AST, parent: Scope) -> Scope:
        """Return the scope that a function, class, lambda or comprehension opens."""
        if id(node) not in self._scopes:
            self._scopes[id(node)] = read_scope(node, parent)
        return self._scopes[id(node)]

    def scope_at(self, node: ast.expr | ast.stmt) -> Scope:
        """Return the scope that a node is in."""
        at, scope = (node.lineno, node.col_offset), self.module
        # The walk lists outer scopes first; decorators come before what they decorate.
        for each in self._openers:
            end = each.end_lineno or 0, each.end_col_offset or 0
            if (each.lineno, each.col_offset) < at < end:
                scope = self.scope(each, scope)
        return scope

    @cached_property
    def _openers(self) -> list[ast.expr | ast.stmt]:
        return [each for each in all_nodes(self.source.tree) if isinstance(each, _OPENERS)]

    def value(self, node: ast.expr, scope: Scope) -> Chain | None:
        """Return what an expression names; None where that does not show."""
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._value(node, scope)
        finally:
            self._depth -= 1

    def _value(self, node: ast.expr, scope: Scope) -> Chain | None:
        match node:
            case ast.Name():
                return self._name(node.id, scope)
            case ast.Attribute():
                inner = self.value(node.value, scope)
                if inner is None:
                    return self.unknown_member(node, scope)
                return inner.member(node.attr) or self.set_on_self(node, scope)
            case ast.Call():
                if isinstance(node.func, ast.Name) and node.func.id == "super":
                    return self._super(scope)
                if last_name(node) == "TypeVar":
                    bounds = [each.value for each in node.keywords if each.arg == "bound"]
                    return self.annotation(bounds[0], scope) if bounds else None
                inner = self.value(node.func, scope)
                if inner is None and isinstance(node.func, ast.Attribute):
                    return self.set_on_self(node.func, scope, "()")
                return None if inner is None else self.called(inner)
            case ast.Await() | ast.NamedExpr():
                return self.value(node.value, scope)
            case ast.Subscript():
                inner = self.value(node.value, scope)
                # Class[...] is a parametrised class; a subscript of anything else is an element.
                if inner is None or inner.parts[-1][:1].isupper():
                    return inner
                element = inner.member(ELEMENT)
                return None if element is None else self.called(element)
            case _:
                return None

    def _name(self, name: str, scope: Scope) -> Chain | None:
        receiver = self.receiver(name, scope)
        if receiver is not None:
            return receiver
        found = scope.find(name)
        if found is None or found[1] is self.module:
            return self.top_value(name)
        return self._bound(*found)

    def _bound(self, bindings: list[Bound], scope: Scope) -> Chain | None:
        key = id(bindings)  # the scopes keep every list alive
        if key not in self._names:
            self._names[key] = None  # a name that is set from itself is not known
            self._names[key] = self._one_of(bindings, scope)
        return self._names[key]

    def _one_of(self, bindings: list[Bound], scope: Scope) -> Chain | None:
        if len(bindings) > _MOST_BINDINGS:
            return None
        if any(self._is_replaced(each, bindings) for each in bindings):
            return None  # which of the two a use means, its place alone would say
        found = [self._binding(each, scope) for each in bindings]
        imported = [
            chain
            for each, chain in zip(bindings, found, strict=True)
            if chain is not None and each.alias is not None
        ]
        if imported:
            return imported[0]
        # Bindings that disagree leave the name unknown; an import among them settles it.
        first = found[0]
        return first if all(each == first for each in found) else None

    def _is_replaced(self, bound: Bound, bindings: list[Bound]) -> bool:
        """Return whether the block of an import binds its name anew: that is no fallback of it."""
        block = self._blocks.get(id(bound.node), [])
        if len(bindings) == 1 or not block:
            return False
        lines = {getattr(each.node, "lineno", 0) for each in bindings if each.alias is None}
        behind = (each for each in block if each.lineno > getattr(bound.node, "lineno", 0))
        return any(each.lineno in lines for each in behind if isinstance(each, _BINDERS))

    @cached_property
    def _blocks(self) -> dict[int, list[ast.stmt]]:
        """The statements among which each import is."""
        blocks = (
            cast("list[ast.stmt]", getattr(each, name, None) or [])
            for each in all_nodes(self.source.tree)
            if not isinstance(each, (ast.Lambda, ast.IfExp))
            for name in ("body", "orelse", "finalbody")
        )
        return {
            id(each): block
            for block in blocks
            for each in block
            if isinstance(each, (ast.Import, ast.ImportFrom))
        }

    def _binding(self, bound: Bound, scope: Scope) -> Chain | None:
        chain = None
        match bound.node:
            case ast.Import() | ast.ImportFrom():
                return self.imported(bound)
            case ast.ClassDef():
                return self.class_chain(bound.node)
            case (
                ast.AnnAssign(annotation=ast.expr() as kind)
                | ast.arg(annotation=ast.expr() as kind)
            ):
                # What a call gives may be of a class that derives from the one that is declared.
                made = self.value(bound.value, scope) if isinstance(bound.value, ast.Call) else None
                if made is not None:
                    return made
                if isinstance(kind, ast.Subscript) and last_name(kind.value) in ("Type", "type"):
                    return self.annotation(kind.slice, scope)  # the class, and no instance of it
                chain = self.annotation(kind, scope)
            case ast.ExceptHandler(type=ast.expr() as kind):
                chain = self.value(kind, scope)
            case ast.withitem():
                return None if bound.value is None else self.value(_entered(bound.value), scope)
            case _:
                # Of a function of the tree, what it returns is not followed.
                return None if bound.value is None else self.value(bound.value, scope)
        return None if chain is None else self.called(chain)

    def annotation(self, node: ast.expr, scope: Scope) -> Chain | None:
        """Return the class that alone of an annotation's sides is known.

        What is asked of such a value is asked of that class: ``str`` of ``Config | str`` has none
        of its members.
        """
        kinds = (ast.Name, ast.Attribute, ast.Subscript)
        found = {self.value(each, scope) for each in sides_of(node) if isinstance(each, kinds)}
        chains = found - {None}
        return chains.pop() if len(chains) == 1 else None

    def receiver(self, name: str, scope: Scope) -> Chain | None:
        """Return what ``self`` or ``cls`` of a method is; None for any other name."""
        found = _method_of(name, scope)
        if found is None:
            return None
        method, owner, _ = found
        marks = {last_name(each) for each in method.decorator_list}
        if "staticmethod" in marks:
            return None
        chain = self.class_chain(owner)
        is_class = "classmethod" in marks or method.name in ("__new__", "__init_subclass__")
        # pydantic's validators are class methods without saying so.
        return chain if chain is None or is_class or "validator" in marks else self.called(chain)

    def _super(self, scope: Scope) -> Chain | None:
        inner: Scope | None = scope
        while inner is not None and inner.owner is None:
            inner = inner.parent
        if inner is None or inner.owner is None:
            return None
        owner, around = inner.owner
        for base in owner.bases:
            # super() leads to the first base that is known; the MRO beyond is not followed.
            chain = self.value(base, around.parent or self.module)
            if chain is not None:
                return self.called(chain)
        return None

    def set_on_self(self, node: ast.Attribute, scope: Scope, call: str = "") -> Chain | None:
        """Return what ``self.x``, or with a call ``self.x()``, gives by one line of its class."""
        found = _method_of(node.value.id, scope) if isinstance(node.value, ast.Name) else None
        if found is None:
            return None
        _, owner, around = found
        if id(owner) not in self._set_on_self:
            self._set_on_self[id(owner)] = _set_on_self(owner)
        values = self._set_on_self[id(owner)].get(f"{node.attr}{call}", [])
        # Two assignments may hold two types.
        if len(values) != 1:
            return None
        function, value = values[0]
        return self.value(value, self.scope(function, self.scope(owner, around.parent or around)))


def last_name(node: ast.expr) -> str:
    """Return the last part of an expression's name, or of what it calls."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _method_of(receiver: str, scope: Scope) -> tuple[Function, ast.ClassDef, Scope] | None:
    """Return the method that has a name as its first parameter, and its class with its scope."""
    found = scope.find(receiver)
    inner = found[1] if found is not None else scope
    if inner.owner is None or not isinstance(inner.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    first = [each.arg for each in (*inner.node.args.posonlyargs, *inner.node.args.args)][:1]
    return (inner.node, *inner.owner) if first == [receiver] else None


def _set_on_self(owner: ast.ClassDef) -> dict[str, list[tuple[Function, ast.expr]]]:
    """Return what the attributes of ``self`` are set to, and what properties and methods give."""
    found: dict[str, list[tuple[Function, ast.expr]]] = {}
    for method in owner.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        marks = {last_name(each) for each in method.decorator_list}
        name = method.name if marks & PROPERTIES else f"{method.name}()"
        for each in own_nodes(method):
            if isinstance(each, ast.Return) and each.value is not None:
                found.setdefault(name, []).append((method, each.value))
        for each in ast.walk(method):
            for target in each.targets if isinstance(each, ast.Assign) else ():
                if _is_of_self(target) and isinstance(each, ast.Assign):
                    found.setdefault(target.attr, []).append((method, each.value))
    return found


def _is_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    owner = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == "self"


def _entered(manager: ast.expr) -> ast.expr:
    """Return the expression whose value a ``with`` binds."""
    # `with m as x` binds what m.__enter__() returns, which need not be m.
    entering = ast.Attribute(manager, "__enter__", ast.Load())
    return ast.copy_location(ast.Call(ast.copy_location(entering, manager), [], []), manager)
