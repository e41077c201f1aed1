"""What the names of a Python source are bound to, scope by scope, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Imported:
    """Is a name bound by an import: its dotted name, absolute or with leading dots."""

    dotted: str
    line: int


@dataclass(frozen=True)
class Assigned:
    """Is a name bound to a value; None where the value is not one expression."""

    value: ast.expr | None


@dataclass(frozen=True)
class Annotated:
    """Is a parameter or variable whose annotation alone tells what it holds."""

    annotation: ast.expr


@dataclass(frozen=True)
class Caught:
    """Is the name of an exception in its handler."""

    kind: ast.expr | None


Binding = Imported | Assigned | Annotated | Caught | ast.ClassDef | Function


@dataclass
class Scope:
    """Is the body of a module, class or function with what it binds.

    Args:
        node: Whose body it is.
        parent: The scope around it, or None.
        names: Every name with all its bindings.
        owner: The class whose method this is, with the scope that it stands in.
    """

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict[str, "list[Binding]"])
    owner: tuple[ast.ClassDef, Scope] | None = None

    def find(self, name: str) -> tuple[list[Binding], Scope] | None:
        """Returns what a name is bound to as code here sees it, and the scope that binds it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope.names[name], scope
            scope = scope.parent
        return None

    def bind(self, name: str, binding: Binding) -> None:
        """Adds a binding of a name."""
        self.names.setdefault(name, []).append(binding)


def read_scope(node: ast.AST, parent: Scope | None) -> Scope:
    """Reads what the body of a module, class or function binds."""
    scope = Scope(node, parent)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        _bind_parameters(node.args, scope)
        if parent is not None and isinstance(parent.node, ast.ClassDef):
            scope.owner = (parent.node, parent)
    for each in _own_nodes(node):
        _bind(each, scope)
    return scope


def _bind_parameters(arguments: ast.arguments, scope: Scope) -> None:
    starred = (arguments.vararg, arguments.kwarg)
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        scope.bind(each.arg, Annotated(each.annotation) if each.annotation else Assigned(None))
    for each in starred:
        if each is not None:
            scope.bind(each.arg, Assigned(None))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a body, without what stands inside of nested scopes."""
    body: list[ast.AST] = (
        list(getattr(node, "body", [])) if not isinstance(node, ast.Lambda) else []
    )
    pending = body[::-1]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(each, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        pending += list(ast.iter_child_nodes(each))[::-1]


def _bind(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Import():
            for each in node.names:
                top = each.name.partition(".")[0]
                scope.bind(
                    each.asname or top, Imported(each.name if each.asname else top, node.lineno)
                )
        case ast.ImportFrom():
            lead = "." * node.level + (node.module or "")
            for each in node.names:
                dot = "" if lead.endswith(".") else "."
                scope.bind(
                    each.asname or each.name, Imported(f"{lead}{dot}{each.name}", node.lineno)
                )
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            scope.bind(node.name, node)
        case ast.Assign():
            for target in node.targets:
                _bind_target(target, node.value, scope)
        case ast.AnnAssign():
            if isinstance(node.target, ast.Name):
                told = Annotated(node.annotation)
                known = isinstance(node.value, ast.Call)
                scope.bind(node.target.id, Assigned(node.value) if known else told)
        case ast.NamedExpr():
            _bind_target(node.target, node.value, scope)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if item.optional_vars is not None:
                    _bind_target(item.optional_vars, _entered(item.context_expr), scope)
        case ast.For() | ast.AsyncFor():
            _bind_target(node.target, None, scope)
        case ast.AugAssign():
            _bind_target(node.target, None, scope)
        case ast.ExceptHandler():
            if node.name:
                scope.bind(node.name, Caught(node.type))
        case ast.MatchAs() | ast.MatchStar():
            if node.name:
                scope.bind(node.name, Assigned(None))
        case _:
            return


def _entered(manager: ast.expr) -> ast.expr:
    """Returns the expression whose value a ``with`` binds."""
    entering = ast.Attribute(manager, "__enter__", ast.Load())
    return ast.copy_location(ast.Call(ast.copy_location(entering, manager), [], []), manager)


def _bind_target(target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope.bind(target.id, Assigned(value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(values):
            values = list(value.elts)
        for each, inner in zip(target.elts, values, strict=True):
            _bind_target(each, inner, scope)
    elif isinstance(target, ast.Starred):
        _bind_target(target.value, None, scope)
