"""The sources of a tree: what their expressions name of a package, through classes of the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TypeGuard

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.annotations import sides_of
from scaffold.analysis.python.attributes import instance_names
from scaffold.analysis.python.decorators import PROPERTIES
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.scopes import (
    Bound,
    Function,
    Scope,
    bindings_of,
    own_nodes,
    read_scope,
)
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import FOR_TYPES, statements
from scaffold.deps.use import ELEMENT, Chain

_DEEPEST = 30
_MOST_BINDINGS = 40


class Tree:
    """The sources of a tree, read for what they take from one package.

    Args:
        files: The tree's files.
        imports: The names under which the package is imported, dotted.
    """

    def __init__(self, files: Files, imports: Iterable[str]) -> None:
        self.files = files
        self.imports = frozenset(imports)
        self.index = PythonIndex(files)
        self._sources = Sources(files)
        self._codes: dict[str, Code | None] = {}
        self._elsewhere: dict[tuple[str, str], Chain | None] = {}

    def code(self, path: str) -> Code | None:
        """Return a source of the tree; None where it does not parse."""
        if path not in self._codes:
            source = self._sources.get(path)
            self._codes[path] = None if source is None else Code(source, self)
        return self._codes[path]

    def belongs(self, dotted: str) -> bool:
        """Return whether a dotted name is the package's."""
        return any(dotted == name or dotted.startswith(f"{name}.") for name in self.imports)

    def may_belong(self, dotted: str) -> bool:
        """Return whether a dotted name is the package's, or leads to it."""
        return self.belongs(dotted) or any(name.startswith(f"{dotted}.") for name in self.imports)

    def elsewhere(self, path: str, dotted: str) -> Chain | None:
        """Return what a name of the tree, imported by a source of it, stands for."""
        key = (path if dotted.startswith(".") else "", dotted)
        if key not in self._elsewhere:
            self._elsewhere[key] = None  # while it is asked for, so that circles end
            self._elsewhere[key] = self._find_elsewhere(path, dotted)
        return self._elsewhere[key]

    def _find_elsewhere(self, path: str, dotted: str) -> Chain | None:
        absolute = self.index.absolute(path, dotted)
        if absolute is None or not self.index.modules.top(absolute.partition(".")[0]):
            return None
        found = self.index.find(absolute)
        if found.path is None or found.line is None or found.path not in self.files.paths:
            return None
        code = self.code(found.path)
        if code is None:
            return None
        if found.kind == "class":
            node = code.source.definitions.get(found.line)
            return code.class_chain(node) if isinstance(node, ast.ClassDef) else None
        if found.kind in ("third_party", "constant"):
            return code.top_value(absolute.rpartition(".")[2])
        return None


class Code:
    """One source whose expressions are followed to what they name.

    Args:
        source: The parsed source.
        tree: The tree that it belongs to.
    """

    def __init__(self, source: Source, tree: Tree) -> None:
        self.source = source
        self._tree = tree
        self.module = read_scope(source.tree, None)
        self._scopes: dict[int, Scope] = {id(source.tree): self.module}
        self._chains: dict[int, Chain | None] = {}
        self._names: dict[int, Chain | None] = {}
        self._set_on_self: dict[int, dict[str, list[tuple[Function, ast.expr]]]] = {}
        self._depth = 0

    def scope(self, node: ast.AST, parent: Scope) -> Scope:
        """Return the scope that a function, class or lambda opens."""
        if id(node) not in self._scopes:
            self._scopes[id(node)] = read_scope(node, parent)
        return self._scopes[id(node)]

    @cached_property
    def _class_scopes(self) -> dict[int, Scope]:
        """The scope around each class."""
        found: dict[int, Scope] = {}
        pending: list[tuple[ast.AST, Scope]] = [(self.source.tree, self.module)]
        while pending:
            node, scope = pending.pop()
            for each in ast.iter_child_nodes(node):
                inner = scope
                if isinstance(each, ast.ClassDef):
                    found[id(each)] = scope
                if isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    inner = self.scope(each, scope)
                pending.append((each, inner))
        return found

    def top_value(self, name: str) -> Chain | None:
        """Return what a name that the module imports or assigns stands for."""
        bindings = self.module.names.get(name)
        return None if bindings is None else self._bound(bindings, self.module)

    def value(self, node: ast.expr, scope: Scope) -> Chain | None:
        """Return what an expression names of the package; None where it is something else."""
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
                receiver = self.receiver(node.id, scope)
                found = scope.find(node.id) if receiver is None else None
                return receiver if found is None else self._bound(*found)
            case ast.Attribute():
                inner = self.value(node.value, scope)
                if inner is None:
                    return self._own_module(node, scope)
                member = inner.member(node.attr)
                return member or self._instance_value(node, scope)
            case ast.Call():
                if isinstance(node.func, ast.Name) and node.func.id == "super":
                    return self._super(scope)
                if _last(node) == "TypeVar":
                    bounds = [each.value for each in node.keywords if each.arg == "bound"]
                    return self.annotation(bounds[0], scope) if bounds else None
                inner = self.value(node.func, scope)
                if inner is None and isinstance(node.func, ast.Attribute):
                    return self._instance_value(node.func, scope, "()")
                return None if inner is None else inner.called()
            case ast.Await() | ast.NamedExpr():
                return self.value(node.value, scope)
            case ast.Subscript():
                inner = self.value(node.value, scope)
                # Class[...] is a parametrised class; a subscript of anything else is an element.
                if inner is None or inner.parts[-1][:1].isupper():
                    return inner
                element = inner.member(ELEMENT)
                return None if element is None else element.called()
            case _:
                return None

    def _own_module(self, node: ast.Attribute, scope: Scope) -> Chain | None:
        """Return what ``module.Name`` is, where ``module`` is one of the tree."""
        if not isinstance(node.value, ast.Name):
            return self._instance_value(node, scope)
        found = scope.find(node.value.id)
        imported = [each for each in found[0] if each.alias is not None] if found else []
        if len(imported) != 1:
            return self._instance_value(node, scope)
        return self._tree.elsewhere(self.source.path, f"{imported[0].dotted}.{node.attr}")

    def _bound(self, bindings: list[Bound], scope: Scope) -> Chain | None:
        key = id(bindings)  # the scopes keep every list alive
        if key not in self._names:
            self._names[key] = None  # a name that is set from itself is not known
            self._names[key] = self._one_of(bindings, scope)
        return self._names[key]

    def _one_of(self, bindings: list[Bound], scope: Scope) -> Chain | None:
        if len(bindings) > _MOST_BINDINGS:
            return None
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

    def _binding(self, bound: Bound, scope: Scope) -> Chain | None:
        chain = None
        match bound.node:
            case ast.Import() | ast.ImportFrom():
                return self._package(bound.dotted) or self._tree.elsewhere(
                    self.source.path, bound.dotted
                )
            case ast.ClassDef():
                return self.class_chain(bound.node)
            case (
                ast.AnnAssign(annotation=ast.expr() as kind)
                | ast.arg(annotation=ast.expr() as kind)
            ) if not isinstance(bound.value, ast.Call):
                if isinstance(kind, ast.Subscript) and _last(kind.value) in ("Type", "type"):
                    return self.annotation(kind.slice, scope)  # the class, and no instance of it
                chain = self.annotation(kind, scope)
            case ast.ExceptHandler(type=ast.expr() as kind):
                chain = self.value(kind, scope)
            case ast.withitem():
                return None if bound.value is None else self.value(_entered(bound.value), scope)
            case _:
                # Of a function of the tree, what it returns is not followed.
                return None if bound.value is None else self.value(bound.value, scope)
        return None if chain is None else chain.called()

    def _package(self, dotted: str) -> Chain | None:
        if dotted.startswith(".") or not self._tree.may_belong(dotted):
            return None
        return Chain(tuple(dotted.split(".")))

    def annotation(self, node: ast.expr, scope: Scope) -> Chain | None:
        """Return the class that alone of an annotation's sides is the package's.

        What is asked of such a value is asked of that class: ``str`` of ``Config | str`` has none
        of its members.
        """
        kinds = (ast.Name, ast.Attribute, ast.Subscript)
        found = {self.value(each, scope) for each in sides_of(node) if isinstance(each, kinds)}
        chains = found - {None}
        return chains.pop() if len(chains) == 1 else None

    def class_chain(self, node: ast.ClassDef) -> Chain | None:
        """Return the package's class that a class of the tree derives from."""
        if id(node) not in self._chains:
            self._chains[id(node)] = None
            self._chains[id(node)] = self._derive(node)
        return self._chains[id(node)]

    def _derive(self, node: ast.ClassDef) -> Chain | None:
        scope = self._class_scopes.get(id(node), self.module)
        bases = [self.value(each, scope) for each in node.bases]
        known = [each for each in bases if each is not None]
        if not known:
            return None
        own = own_names(node).union(*(each.own for each in known))
        for base, expression in zip(bases, node.bases, strict=True):
            if base is None:
                # What a mixin brings is no override of the package's member.
                own |= self._mixin_names(expression, scope)
        return replace(known[0], own=frozenset(own), local=node.name, is_local=True)

    def _mixin_names(self, base: ast.expr, scope: Scope) -> set[str]:
        """Return the members that a base of the tree, which is none of the package, brings."""
        found = scope.find(base.id) if isinstance(base, ast.Name) else None
        for each in found[0] if found else ():
            if isinstance(each.node, ast.ClassDef):
                return own_names(each.node)
        return set(self._tree.index.members(self.source.dotted(base) or "?") or {})

    def receiver(self, name: str, scope: Scope) -> Chain | None:
        """Return what ``self`` or ``cls`` of a method is; None for any other name."""
        found = _method_of(name, scope)
        if found is None:
            return None
        method, owner, _ = found
        marks = {_last(each) for each in method.decorator_list}
        if "staticmethod" in marks:
            return None
        chain = self.class_chain(owner)
        is_class = "classmethod" in marks or method.name in ("__new__", "__init_subclass__")
        # pydantic's validators are class methods without saying so.
        return chain if chain is None or is_class or "validator" in marks else chain.called()

    def _super(self, scope: Scope) -> Chain | None:
        inner: Scope | None = scope
        while inner is not None and inner.owner is None:
            inner = inner.parent
        if inner is None or inner.owner is None:
            return None
        owner, around = inner.owner
        for base in owner.bases:
            # super() leads to the first base of the package; the MRO beyond is not followed.
            chain = self.value(base, around.parent or self.module)
            if chain is not None:
                return chain.called()
        return None

    def _instance_value(self, node: ast.Attribute, scope: Scope, call: str = "") -> Chain | None:
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


def own_names(node: ast.ClassDef) -> set[str]:
    """Return the members that a class's own text brings."""
    # What only type checkers see is the package's while the code runs.
    rows = (each for each, when in statements(node.body) if when != FOR_TYPES)
    bound = {each.name for row in rows for each in bindings_of(row)}
    return bound.union(instance_names(node.body, may_set_by_name=False))


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
        marks = {_last(each) for each in method.decorator_list}
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


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
