"""The sources of a tree: what their expressions name of a package, through classes of the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.attributes import instance_names
from scaffold.analysis.python.follower import Chain, Follower
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.scopes import Bound, Scope, bindings_of
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import FOR_TYPES, statements


class Tree:
    """The sources of a tree, read for what they take from one package, by its dotted names."""

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
        return any(dotted == name or dotted.startswith(f"{name}.") for name in self.imports)

    def may_belong(self, dotted: str) -> bool:
        """Return whether a dotted name is the package's, or leads to it."""
        return self.belongs(dotted) or any(name.startswith(f"{dotted}.") for name in self.imports)

    def elsewhere(self, path: str, dotted: str) -> Chain | None:
        """Return what a name of the tree, imported by a source of it, refers to."""
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


class Code(Follower):
    """One source of a tree whose expressions are followed to what they name of the package."""

    def __init__(self, source: Source, tree: Tree) -> None:
        super().__init__(source)
        self._tree = tree
        self._chains: dict[int, Chain | None] = {}

    def imported(self, bound: Bound) -> Chain | None:
        dotted = bound.dotted
        if not dotted.startswith(".") and self._tree.may_belong(dotted):
            return Chain(tuple(dotted.split(".")))
        return self._tree.elsewhere(self.source.path, dotted)

    def unknown_member(self, node: ast.Attribute, scope: Scope) -> Chain | None:
        """Return what ``module.Name`` is, where ``module`` is one of the tree."""
        found = scope.find(node.value.id) if isinstance(node.value, ast.Name) else None
        imported = [each for each in found[0] if each.alias is not None] if found else []
        if len(imported) != 1:
            return super().unknown_member(node, scope)
        return self._tree.elsewhere(self.source.path, f"{imported[0].dotted}.{node.attr}")

    def class_chain(self, node: ast.ClassDef) -> Chain | None:
        """Return the package's class that a class of the tree derives from."""
        if id(node) not in self._chains:
            self._chains[id(node)] = None
            self._chains[id(node)] = self._derive(node)
        return self._chains[id(node)]

    def _derive(self, node: ast.ClassDef) -> Chain | None:
        scope = self.scope_at(node)
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


def own_names(node: ast.ClassDef) -> set[str]:
    """Return the members that a class's own text brings."""
    # What only type checkers see is the package's while the code runs.
    rows = (each for each, when in statements(node.body) if when != FOR_TYPES)
    bound = {each.name for row in rows for each in bindings_of(row)}
    return bound.union(instance_names(node.body, may_set_by_name=False))
