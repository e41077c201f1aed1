"""What the body of a module binds, with what the index keeps of classes and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.python.attributes import instance_names, why_dynamic
from scaffold.analysis.python.bindings import (
    ClassBinding,
    FieldBinding,
    FunctionBinding,
    ImportBinding,
    Scope,
    ValueBinding,
)
from scaffold.analysis.python.decorators import effect
from scaffold.analysis.python.scopes import Bound, bindings_of
from scaffold.analysis.python.signatures import (
    read_signature,
    source_of,
)
from scaffold.analysis.python.statements import (
    FOR_TYPES,
    SOMETIMES,
    all_nodes,
    dotted_name,
    statements,
)

Statements = Sequence[tuple[ast.stmt, int]]
"""What ``statements`` gives of a body."""


def read_body(body: Statements, *, may_set_by_name: bool = True) -> Scope:
    """Read what a module's body binds.

    Args:
        body: Its statements.
        may_set_by_name: Whether the text holds a word that attributes can be set by (`SETTING`).
    """
    return _Reader(may_set_by_name).scope(body)


class _Reader:
    """A reader of nested bodies that goes through the statements of each once.

    Args:
        may_set_by_name: See `read_body`.
    """

    def __init__(self, may_set_by_name: bool) -> None:
        self._may_set_by_name = may_set_by_name

    def scope(
        self, body: Statements, *, only_definitions: bool = False, in_class: bool = False
    ) -> Scope:
        """Read what a body binds.

        Args:
            body: Its statements.
            only_definitions: Whether only ``def`` and ``class`` count: a function's own variables
                cannot be reached from outside.
            in_class: Whether it is a class's: there a base may define what a condition leaves out.
        """
        scope = Scope()
        for node, typed in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                unsure = typed == FOR_TYPES or (in_class and typed == SOMETIMES)
                scope.add(node.name, self._function(node, unsure))
            elif isinstance(node, ast.ClassDef):
                scope.add(node.name, self._class(node, typed == FOR_TYPES))
            elif not only_definitions:
                _bind_statement(scope, node, typed == FOR_TYPES)
        return scope

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, unsure: bool
    ) -> FunctionBinding:
        # Flattened once: the scope and the decorator effect both read it.
        body = list(statements(node.body))
        inner = self.scope(body, only_definitions=True)
        what = effect(node, [each for each, _ in body])
        decorators = _decorators(node, unsure)
        return FunctionBinding(node.lineno, read_signature(node), decorators, inner, what)

    def _class(self, node: ast.ClassDef, unsure: bool) -> ClassBinding:
        # `**options` has no name in the tree: the key "**" marks that more is given.
        keywords = {each.arg or "**": source_of(each.value) or "" for each in node.keywords}
        options: dict[str, dict[str, str]] = {}
        for each in node.decorator_list:
            if isinstance(each, ast.Call):
                given = {word.arg or "**": source_of(word.value) or "" for word in each.keywords}
                options[dotted_name(each.func) or "?"] = given
        body = list(statements(node.body))
        plain = [each for each, _ in body]
        return ClassBinding(
            node.lineno,
            node.name,
            tuple(_base(each) for each in node.bases),
            keywords,
            _decorators(node, unsure),
            options,
            self.scope(body, in_class=True),
            instance_names(plain, may_set_by_name=self._may_set_by_name),
            tuple(_fields(plain)),
            why_dynamic(plain) if self._may_set_by_name else None,
        )


def _bind_statement(scope: Scope, node: ast.stmt, typed: bool) -> None:
    if isinstance(node, ast.Delete):
        scope.deleted.update(each.id for each in node.targets if isinstance(each, ast.Name))
    binding: list[ast.AST] = [node]
    if isinstance(node, ast.Match):
        # Case bodies come as statements of their own; only the patterns are left to bind here.
        binding = [inner for case in node.cases for inner in all_nodes(case.pattern)]
    for each in binding:
        for bound in bindings_of(each):
            _bind(scope, bound, typed)


def _bind(scope: Scope, bound: Bound, typed: bool) -> None:
    node, name = bound.node, bound.name
    if isinstance(node, ast.Import):
        scope.add(name, ImportBinding(node.lineno, 0, bound.dotted, None, typed))
    elif isinstance(node, ast.ImportFrom) and name == "*":
        scope.stars.append((node.level, node.module or "", typed))
    elif isinstance(node, ast.ImportFrom) and bound.alias is not None:
        taken = bound.alias.name
        scope.add(name, ImportBinding(node.lineno, node.level, node.module or "", taken, typed))
    elif isinstance(node, ast.withitem):
        # ast.withitem has no line of its own.
        line = node.optional_vars.lineno if node.optional_vars is not None else 1
        scope.add(name, ValueBinding(line))
    else:
        scope.add(name, _value(node, bound.value))


def _value(node: ast.AST, value: ast.expr | None) -> ValueBinding:
    line: int = getattr(node, "lineno", 1)
    if isinstance(value, ast.Call):
        return ValueBinding(line, call=dotted_name(value.func) or "?")
    # A loop target has no value expression and is bound all the same; `x: int` is not.
    has_value = value is not None or not isinstance(node, ast.AnnAssign)
    is_none = isinstance(value, ast.Constant) and value.value is None
    return ValueBinding(line, alias=dotted_name(value), is_bound=has_value, is_none=is_none)


def _base(node: ast.expr) -> str:
    # Generic[T] has the members of Generic.
    while isinstance(node, ast.Subscript):
        node = node.value
    return dotted_name(node) or "?"


def _decorators(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, unsure: bool
) -> tuple[str, ...]:
    # What may not be there is no evidence of what runs: as if decorated by something unknown.
    return ("?",) * unsure + tuple(
        f"{dotted_name(each.func) or '?'}()"
        if isinstance(each, ast.Call)
        else dotted_name(each) or "?"
        for each in node.decorator_list
    )


def _fields(body: Sequence[ast.stmt]) -> Iterator[FieldBinding]:
    for each in body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        call, options = None, dict[str, str]()
        if isinstance(each.value, ast.Call):
            call = dotted_name(each.value.func) or "?"
            options = {
                word.arg or "**": source_of(word.value) or "" for word in each.value.keywords
            }
        annotation = source_of(each.annotation) or ""
        default = source_of(each.value)
        yield FieldBinding(each.target.id, each.lineno, annotation, default, call, options)
