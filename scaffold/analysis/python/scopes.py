"""Which names Python code binds, and to what, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scaffold.analysis.python.statements import all_nodes, nodes_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Bound(NamedTuple):
    """A name with the node that binds it.

    Args:
        name: The name; "*" where an import takes all.
        node: The import, definition, parameter, annotated or augmented assignment, handler,
            pattern or `with` item that binds it; of any other statement the target.
        value: The expression that it is bound to, if it is one; of a `with` item the manager.
        alias: The part of an import that binds it.
    """

    name: str
    node: ast.AST
    value: ast.expr | None = None
    alias: ast.alias | None = None

    @property
    def dotted(self) -> str:
        """The dotted name that an import binds; leading dots are those of a relative one."""
        assert self.alias is not None, "it is bound by an import"
        if isinstance(self.node, ast.ImportFrom):
            lead = "." * self.node.level + (self.node.module or "")
            return f"{lead}{'' if lead.endswith('.') else '.'}{self.alias.name}"
        # `import a.b` binds a, `import a.b as c` binds the module a.b.
        return self.alias.name if self.alias.asname else self.alias.name.partition(".")[0]


@dataclass
class Scope:
    """A module, class, function or comprehension with the names that it binds.

    Args:
        node: Whose scope it is.
        parent: The scope around it, or None.
        names: Every name with all its bindings.
        owner: The class whose method this is, with the scope of its body.
    """

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Bound]] = field(default_factory=dict[str, "list[Bound]"])
    owner: tuple[ast.ClassDef, Scope] | None = None

    def find(self, name: str) -> tuple[list[Bound], Scope] | None:
        """Return what a name is bound to as code here sees it, and the scope that binds it."""
        scope: Scope | None = self
        while scope is not None:
            # The names of a class body are not seen from the functions in it.
            if name in scope.names and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope.names[name], scope
            scope = scope.parent
        return None

    def bind(self, bound: Bound) -> None:
        self.names.setdefault(bound.name, []).append(bound)


def read_scope(node: ast.AST, parent: Scope | None) -> Scope:
    """Return the scope that a module, class, function or comprehension opens."""
    scope = Scope(node, parent)
    around = None if parent is None else parent.node
    if isinstance(node, _FUNCTIONS) and parent is not None and isinstance(around, ast.ClassDef):
        scope.owner = (around, parent)
    # `import *` is a syntax error inside a function or class.
    elsewhere = {"*"} if isinstance(node, _DEFINITIONS) else set[str]()
    found: list[Bound] = [*parameters(node), *_type_parameters(node)]
    for each in own_nodes(node):
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            elsewhere.update(each.names)
        found += bindings_of(each)
    for each in found:
        if each.name not in elsewhere:
            scope.bind(each)
    return scope


def parameters(node: ast.AST) -> Iterator[Bound]:
    """Yield the parameters of a function; what `*args` holds is not of its annotation."""
    if isinstance(node, _FUNCTIONS):
        given = node.args
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            yield Bound(each.arg, each)
        for each in (given.vararg, given.kwarg):
            if each is not None:
                yield Bound(each.arg, given)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the scopes inside of it."""
    if isinstance(node, _COMPREHENSIONS):
        yield from node.generators
        return
    # A lambda's body is one expression and no list of statements.
    pending: list[ast.AST] = [] if isinstance(node, ast.Lambda) else getattr(node, "body", [])[::-1]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, _COMPREHENSIONS):
            # `:=` in a comprehension binds in the scope around it.
            yield from (inner for inner in all_nodes(each) if isinstance(inner, ast.NamedExpr))
        elif not isinstance(each, (*_DEFINITIONS, ast.Lambda)):
            pending += list(ast.iter_child_nodes(each))[::-1]


def bindings_of(node: ast.AST) -> Iterator[Bound]:
    """Yield what one node binds by itself; the nodes below it bind their own."""
    match node:
        case ast.Import():
            for each in node.names:
                yield Bound(each.asname or each.name.partition(".")[0], node, None, each)
        case ast.ImportFrom():
            for each in node.names:
                yield Bound(each.asname or each.name, node, None, each)
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield Bound(node.name, node)
        case ast.Assign():
            for target in node.targets:
                yield from _targets(target, node.value)
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield Bound(name, node, node.value if isinstance(node, ast.AnnAssign) else None)
        case ast.NamedExpr():
            yield from _targets(node.target, node.value)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                for each in _targets(item.optional_vars, None):
                    # Only `with m as x` ties x to the manager; a tuple takes it apart.
                    is_whole = each.node is item.optional_vars
                    yield Bound(each.name, item, item.context_expr if is_whole else None)
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield from _targets(node.target, None)
        case ast.arg(arg=str(name)):
            yield Bound(name, node)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield Bound(name, node)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield Bound(name, node)
        case _:
            # Read by name: the Python that runs this may have no such node.
            if type(node).__name__ == "TypeAlias":
                yield from _targets(getattr(node, "name", None), None)


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that code binds in any scope other than by an absolute import."""
    for node in nodes_of(tree):
        if type(node) is ast.Name:  # most nodes are, and only `del` binds by one alone
            if type(node.ctx) is ast.Del:
                yield node.id
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names
        elif type(node) in _BINDING:
            yield from (each.name for each in _type_parameters(node))
            for each in bindings_of(node):
                if each.alias is None or each.dotted.startswith("."):
                    yield each.name


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that absolute imports bind, in any scope, with what they mean."""
    for node in nodes_of(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for each in bindings_of(node):
                if not each.dotted.startswith("."):
                    yield each.name, each.dotted


def _type_parameters(node: ast.AST) -> Iterator[Bound]:
    # Python before 3.12 has no such field.
    for each in getattr(node, "type_params", ()):
        yield Bound(each.name, each)


def _targets(target: ast.expr | None, value: ast.expr | None) -> Iterator[Bound]:
    """Yield the names of a target, each with its part of the value where both are written out."""
    if isinstance(target, ast.Name):
        yield Bound(target.id, target, value)
    elif isinstance(target, ast.Starred):
        # A starred name gets a list of the rest, never the element written there.
        yield from _targets(target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            values = list(value.elts)
        for part, given in zip(target.elts, values, strict=True):
            yield from _targets(part, given)


_BINDING = frozenset(
    {ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign}
    | {ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor}
    | {ast.comprehension, ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping}
    | {getattr(ast, "TypeAlias", ast.arg)}
)
"""The kinds of nodes that may bind; to ask every node of a tree is slow."""
