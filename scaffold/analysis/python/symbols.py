"""The table of names of one Python source, compact enough to keep for thousands of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from scaffold.analysis.python.attributes import SETTING
from scaffold.analysis.python.bindings import Scope, ValueBinding
from scaffold.analysis.python.bodies import Statements, read_body
from scaffold.analysis.python.lazy_names import LazyNames, is_lazy_module, read_lazy_names
from scaffold.analysis.python.statements import all_nodes, dotted_name, statements
from scaffold.syntax import parse

MODULE_NAMES = frozenset(
    {"__name__", "__doc__", "__file__", "__path__", "__package__", "__spec__", "__loader__"}
    | {"__dict__", "__builtins__", "__cached__", "__annotations__", "__class__"}
)
"""Names that every module has without binding them."""


DYNAMIC_WORDS = (b"globals", b"exec", b"sys.modules", b"vars(", b"locals(")
"""Without one of these a module gets no names but those that it binds."""


@dataclass(slots=True)
class ModuleTable:
    """The names of one module, read from its text.

    Args:
        scope: What its statements bind.
        exports: The names in ``__all__``; None where there is none.
        exports_are_complete: Whether ``__all__`` is one literal list.
        lazy: What a module-level ``__getattr__`` or a lazy module gives.
        dynamic: Why more names may appear while it runs, or None.
        extends_path: Whether it changes ``__path__``, so that submodules may lie elsewhere.
        problem: Why it could not be read, or None.
    """

    scope: Scope = field(default_factory=Scope)
    exports: frozenset[str] | None = None
    exports_are_complete: bool = True
    lazy: LazyNames = field(default_factory=LazyNames)
    dynamic: str | None = None
    extends_path: bool = False
    problem: str | None = None


def read_module(source: bytes) -> ModuleTable:
    """Read a module's table; a source that cannot be parsed has a problem and no names."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return ModuleTable(problem=f"it does not parse: {error.msg} (line {error.lineno})")
    try:
        return _table(tree, source)
    except RecursionError:
        return ModuleTable(problem="it is nested too deeply")


def _table(tree: ast.Module, source: bytes) -> ModuleTable:
    body = list(statements(tree.body))
    scope = read_body(body, may_set_by_name=any(word in source for word in SETTING))
    # Searching the bytes is far cheaper than walking a tree, and most sources have none of these.
    exports, complete = _exports(body) if b"__all__" in source else (None, True)
    _bind_from_within(tree, source, scope)
    return ModuleTable(
        scope,
        exports,
        complete,
        read_lazy_names(tree, [each for each, _ in body], scope),
        _dynamic(tree, source),
        b"__path__" in source and _extends_path(tree),
    )


def _bind_from_within(tree: ast.Module, source: bytes, scope: Scope) -> None:
    """Bind what expressions (``:=``) and functions (``global``) bind in the module."""
    if b":=" not in source and b"global " not in source:
        return
    for node in all_nodes(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                # A binding at the top level is more exact than the one that a function makes.
                if name not in scope.names:
                    scope.add(name, ValueBinding(node.lineno))
        elif isinstance(node, ast.NamedExpr) and node.target.id not in scope.names:
            scope.add(node.target.id, ValueBinding(node.lineno))


def _exports(body: Statements) -> tuple[frozenset[str] | None, bool]:
    """Read ``__all__`` through ``=``, ``+=``, ``append``, ``extend`` and ``+`` of literals."""
    found: set[str] | None = None
    complete = True
    for node, _ in body:
        for value in _all_values(node):
            found = set() if found is None else found
            for part in _added(value):
                names = _strings(part)
                # The literal names still count where another part cannot be read.
                complete = complete and names is not None
                found.update(names or ())
    return (None if found is None else frozenset(found)), complete


def _all_values(node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if dotted_name(target) == "__all__" or (
                isinstance(target, ast.Tuple)
                and any(dotted_name(each) == "__all__" for each in target.elts)
            ):
                yield node.value
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        if dotted_name(node.target) == "__all__" and node.value is not None:
            yield node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if (dotted_name(call.func) or "").startswith("__all__."):
            yield from call.args


def _added(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of ``a + b + c`` and of ``[*a, "b"]``."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.left, node.right]
        elif isinstance(node, ast.Starred):
            pending.append(node.value)
        elif isinstance(node, (ast.List, ast.Tuple)) and any(
            isinstance(each, ast.Starred) for each in node.elts
        ):
            pending += node.elts
        else:
            yield node


def _strings(node: ast.expr) -> list[str] | None:
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [node]
    found: list[str] = []
    for each in elements:
        if not isinstance(each, ast.Constant) or not isinstance(each.value, str):
            return None
        found.append(each.value)
    return found


def _dynamic(tree: ast.Module, source: bytes) -> str | None:
    """Return why a module may get names that its text does not bind, or None."""
    if not any(word in source for word in DYNAMIC_WORDS):
        return None
    found = [each for each in all_nodes(tree) if _may_add_names(each)]
    if not found:
        return None
    read_only = _harmless_reads(tree)
    # A hook that caches in globals() adds no name beyond those it gives.
    read_only |= {id(each) for hook in _hooks(tree) for each in all_nodes(hook)}
    inner = {
        id(node)
        for function, _ in statements(tree.body)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in all_nodes(function)
    }
    for node in found:
        if id(node) in read_only:
            continue
        if not isinstance(node, ast.Call):
            return f"line {node.lineno} changes or replaces sys.modules[__name__]"
        name = dotted_name(node.func)
        if name == "globals":
            return f"line {node.lineno} changes or hands on globals()"
        # exec() with a namespace of its own leaves the module alone.
        if name == "exec" and len(node.args) < 2:
            return f"line {node.lineno} runs generated code"
        # Inside a function both concern its own variables.
        if name in ("vars", "locals") and not node.args and id(node) not in inner:
            return f"line {node.lineno} hands on {name}()"
    return None


def _may_add_names(node: ast.AST) -> TypeGuard[ast.Call | ast.Subscript]:
    if isinstance(node, ast.Call):
        return dotted_name(node.func) in ("globals", "exec", "vars", "locals")
    return (
        isinstance(node, ast.Subscript)
        and dotted_name(node.value) == "sys.modules"
        and dotted_name(node.slice) == "__name__"
    )


def _hooks(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield what ``lazy_names`` reads: it may keep what it gives in ``globals()``."""
    for node, _ in statements(tree.body):
        if (isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")) or (
            isinstance(node, ast.Assign) and is_lazy_module(node.value)
        ):
            yield node


def _harmless_reads(tree: ast.Module) -> set[int]:
    """Find ``globals()[x]`` that is only read, ``x in globals()`` and ``globals().get(x)``."""
    found: set[int] = set()
    for node in all_nodes(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            found.add(id(node.value))
        elif isinstance(node, ast.Compare):
            found.update(id(each) for each in node.comparators)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if node.attr in ("get", "keys", "__doc__", "__file__", "__name__", "__dict__"):
                found.add(id(node.value))
        elif isinstance(node, ast.Call) and dotted_name(node.func) in ("getattr", "len", "sorted"):
            found.update(id(each) for each in node.args)
    return found


def _extends_path(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == "__path__" and not isinstance(node.ctx, ast.Load)
        for node in all_nodes(tree)
    ) or any(
        isinstance(node, ast.Attribute)
        and dotted_name(node) in ("__path__.append", "__path__.insert", "__path__.extend")
        for node in all_nodes(tree)
    )
