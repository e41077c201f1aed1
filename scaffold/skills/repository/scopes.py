"""What a body of statements binds: names, without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scaffold.skills.repository.decorators import effect
from scaffold.skills.repository.signatures import (
    Signature,
    read_parameters,
    read_signature,
    source_of,
)


@dataclass(frozen=True, slots=True)
class ImportBinding:
    """Is a name bound by an import.

    Args:
        line: Where it stands, from 1.
        level: The number of leading dots.
        module: The module named, without dots; may be empty.
        name: The name taken from it; None for ``import module``.
        for_types: Whether it stands under ``if TYPE_CHECKING``.
    """

    line: int
    level: int
    module: str
    name: str | None
    for_types: bool = False


@dataclass(frozen=True, slots=True)
class FunctionBinding:
    """Is a ``def``.

    Args:
        line: The line of its ``def``, from 1.
        signature: Its parameters, the receiver among them.
        decorators: The decorators' dotted names as written, with ``()`` where they are called;
            ``?`` for any other expression.
        names: What its own body binds: nested functions and classes only.
        effect: What it does as a decorator, see ``decorators.effect``.
    """

    line: int
    signature: Signature
    decorators: tuple[str, ...]
    names: Scope
    effect: str = ""


@dataclass(frozen=True, slots=True)
class ClassBinding:
    """Is a ``class``.

    Args:
        line: The line of its ``class``, from 1.
        name: Its name.
        bases: The bases' dotted names as written, without ``[...]``; ``?`` for other expressions.
        keywords: Keyword arguments of the ``class`` line as written.
        decorators: As for a function; arguments of ``dataclass`` stand in ``options``.
        options: Keyword arguments of the decorators, as written, by decorator.
        names: What its body binds.
        instance_names: The attributes that its methods set on ``self`` and the line of each.
        fields: The annotated names of its body, in order.
        dynamic: Why more attributes may appear while it runs, or None.
    """

    line: int
    name: str
    bases: tuple[str, ...]
    keywords: dict[str, str]
    decorators: tuple[str, ...]
    options: dict[str, dict[str, str]]
    names: Scope
    instance_names: dict[str, int]
    fields: tuple[FieldBinding, ...]
    dynamic: str | None = None


@dataclass(frozen=True, slots=True)
class FieldBinding:
    """Is an annotated name in a class body.

    Args:
        name: The name.
        line: Where it stands, from 1.
        annotation: Its type as written.
        default: Its value as written, or None.
        call: The dotted name of the function that makes the default (``field``), or None.
        options: The keyword arguments of that call as written.
    """

    name: str
    line: int
    annotation: str
    default: str | None
    call: str | None
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class ValueBinding:
    """Is an assigned name, or one that is only annotated.

    Args:
        line: Where it stands, from 1.
        alias: The dotted name that it is set to (``a = b.c``), or None.
        call: The dotted name of the call that makes it (``a = b.c(...)``), or None.
        arguments: That call's arguments, kept only for calls that make a callable or a class.
        signature: What a ``lambda`` takes.
        is_bound: Whether it has a value at all; ``x: int`` in a module has none.
        is_none: Whether that is ``None``, which stands for what could not be imported.
    """

    line: int
    alias: str | None = None
    call: str | None = None
    arguments: ast.Call | None = None
    signature: Signature | None = None
    is_bound: bool = True
    is_none: bool = False


Binding = ImportBinding | FunctionBinding | ClassBinding | ValueBinding


@dataclass(slots=True)
class Scope:
    """Is what a module's, class's or function's body binds.

    Args:
        names: Every name with all its bindings, in the order of the text.
        stars: The modules of ``from module import *``, as level, module and whether only type
            checkers see it.
        deleted: The names that a ``del`` takes away.
    """

    names: dict[str, list[Binding]] = field(default_factory=dict[str, "list[Binding]"])
    stars: list[tuple[int, str, bool]] = field(default_factory=list[tuple[int, str, bool]])
    deleted: set[str] = field(default_factory=set[str])

    def add(self, name: str, binding: Binding) -> None:
        """Adds one more binding of a name."""
        self.names.setdefault(name, []).append(binding)


KEPT_CALLS = frozenset({"partial", "namedtuple", "NamedTuple", "partialmethod", "Enum"})
"""Calls whose arguments say what the result takes; of all others only the name is kept."""

_TYPES_ONLY = frozenset({"TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING"})


ALWAYS, SOMETIMES, FOR_TYPES = range(3)
"""When a statement runs: at every import, under a condition, or for type checkers only."""


def statements(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, int]]:
    """Yields every statement of one scope in order, and when it runs."""
    pending: list[tuple[ast.stmt, int]] = [(each, ALWAYS) for each in reversed(body)]
    while pending:
        node, typed = pending.pop()
        yield node, typed
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part, part_typed in reversed(list(_parts(node, typed))):
            pending.extend((each, part_typed) for each in reversed(part))


def read_scope(
    body: Sequence[ast.stmt], *, only_definitions: bool = False, in_class: bool = False
) -> Scope:
    """Reads what a body binds.

    Args:
        body: The statements.
        in_class: Whether it is a class's: there a base may define what a condition leaves out.
        only_definitions: Whether only ``def`` and ``class`` count: a function's own variables
            cannot be reached from outside.
    """
    scope = Scope()
    for node, typed in statements(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            unsure = typed == FOR_TYPES or (in_class and typed == SOMETIMES)
            scope.add(node.name, _function(node, unsure))
        elif isinstance(node, ast.ClassDef):
            scope.add(node.name, _class(node, typed == FOR_TYPES))
        elif not only_definitions:
            _bind_statement(scope, node, typed == FOR_TYPES)
    return scope


def dotted_name(node: ast.expr | None) -> str | None:
    """Returns ``a.b.c`` for such an expression; None for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _parts(node: ast.stmt, typed: int) -> Iterator[tuple[list[ast.stmt], int]]:
    if isinstance(node, ast.If):
        guarded = FOR_TYPES if source_is(node.test, _TYPES_ONLY) else SOMETIMES
        yield node.body, max(typed, guarded)
        yield node.orelse, max(typed, SOMETIMES)
        return
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, []), typed
        if name == "body":
            for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield handler.body, typed


def source_is(node: ast.expr, names: frozenset[str]) -> bool:
    """Tells whether an expression is one of these dotted names."""
    return dotted_name(node) in names


def _bind_statement(scope: Scope, node: ast.stmt, typed: bool) -> None:
    if isinstance(node, ast.Import):
        for each in node.names:
            module = each.name if each.asname else each.name.partition(".")[0]
            bound = each.asname or module
            scope.add(bound, ImportBinding(node.lineno, 0, module, None, typed))
    elif isinstance(node, ast.ImportFrom):
        _bind_from(scope, node, typed)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            _bind_target(scope, target, node.value)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        value = _value(node, node.value)
        scope.add(node.target.id, value)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        scope.add(node.target.id, ValueBinding(node.lineno))
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        _bind_target(scope, node.target, None)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            _bind_target(scope, item.optional_vars, None)
    elif isinstance(node, ast.Delete):
        scope.deleted.update(each.id for each in node.targets if isinstance(each, ast.Name))
    elif type(node).__name__ == "TypeAlias":
        _bind_target(scope, getattr(node, "name", None), None)
    elif isinstance(node, ast.Match):
        for case in node.cases:
            for each in ast.walk(case.pattern):
                name = getattr(each, "name", None)
                if isinstance(name, str):
                    scope.add(name, ValueBinding(node.lineno))


def _bind_from(scope: Scope, node: ast.ImportFrom, typed: bool) -> None:
    for each in node.names:
        if each.name == "*":
            scope.stars.append((node.level, node.module or "", typed))
            continue
        binding = ImportBinding(node.lineno, node.level, node.module or "", each.name, typed)
        scope.add(each.asname or each.name, binding)


def _bind_target(scope: Scope, target: ast.expr | None, value: ast.expr | None) -> None:
    if isinstance(target, ast.Name):
        scope.add(target.id, _value(target, value))
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            values = list(value.elts)
        for part, given in zip(target.elts, values, strict=True):
            _bind_target(scope, part, given)


def _value(node: ast.expr | ast.stmt, value: ast.expr | None) -> ValueBinding:
    line = node.lineno
    if isinstance(value, ast.Call):
        call = dotted_name(value.func) or "?"
        kept = value if call.rpartition(".")[2] in KEPT_CALLS else None
        return ValueBinding(line, call=call, arguments=kept)
    if isinstance(value, ast.Lambda):
        return ValueBinding(line, signature=Signature("<lambda>", read_parameters(value.args)))
    has_value = value is not None or not isinstance(node, ast.AnnAssign)
    is_none = isinstance(value, ast.Constant) and value.value is None
    return ValueBinding(line, alias=dotted_name(value), is_bound=has_value, is_none=is_none)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, unsure: bool) -> FunctionBinding:
    inner = read_scope(node.body, only_definitions=True)
    what = effect(node, [each for each, _ in statements(node.body)])
    return FunctionBinding(
        node.lineno, read_signature(node), _decorators(node, unsure), inner, what
    )


def _class(node: ast.ClassDef, unsure: bool) -> ClassBinding:
    keywords = {each.arg or "**": source_of(each.value) or "" for each in node.keywords}
    options: dict[str, dict[str, str]] = {}
    for each in node.decorator_list:
        if isinstance(each, ast.Call):
            given = {word.arg or "**": source_of(word.value) or "" for word in each.keywords}
            options[dotted_name(each.func) or "?"] = given
    return ClassBinding(
        node.lineno,
        node.name,
        tuple(_base(each) for each in node.bases),
        keywords,
        _decorators(node, unsure),
        options,
        read_scope(node.body, in_class=True),
        _instance_names(node),
        tuple(_fields(node)),
        _dynamic_attributes(node),
    )


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return dotted_name(node) or "?"


def _decorators(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, unsure: bool
) -> tuple[str, ...]:
    # What may not be there says nothing about what runs: as if decorated by something unknown.
    return ("?",) * unsure + tuple(
        f"{dotted_name(each.func) or '?'}()"
        if isinstance(each, ast.Call)
        else dotted_name(each) or "?"
        for each in node.decorator_list
    )


def _fields(node: ast.ClassDef) -> Iterator[FieldBinding]:
    for each, _ in statements(node.body):
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


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each, _ in statements(node.body):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield each


def _instance_names(node: ast.ClassDef) -> dict[str, int]:
    """Finds ``self.x = ...``, ``cls.x = ...`` and the names in ``__slots__``."""
    found: dict[str, int] = {}
    for method in _methods(node):
        receiver = next((each.arg for each in [*method.args.posonlyargs, *method.args.args]), None)
        for target in _targets(method.body):
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == receiver
            ):
                found.setdefault(target.attr, target.lineno)
        for call in _setattr_calls(method):
            name = _literal_name(call)
            if name is not None:
                found.setdefault(name, call.lineno)
    for each, _ in statements(node.body):
        if isinstance(each, ast.Assign) and any(
            source_is(target, frozenset({"__slots__"})) for target in each.targets
        ):
            for text in ast.walk(each.value):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.setdefault(text.value, text.lineno)
    return found


def _targets(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Yields every assigned expression of a body, nested functions' among them."""
    for node, _ in statements(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _targets(node.body)
        if isinstance(node, ast.Assign):
            assigned = node.targets
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            assigned = [each.optional_vars for each in node.items]
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            assigned = [node.target]
        else:
            continue
        for each in assigned:
            yield from _flat(each)


def _flat(target: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _flat(each)
    elif isinstance(target, ast.Starred):
        yield from _flat(target.value)
    elif target is not None:
        yield target


def _dynamic_attributes(node: ast.ClassDef) -> str | None:
    """Says why a class may hold attributes that its text does not name, or returns None."""
    for statement, _ in statements(node.body):
        is_class = isinstance(statement, ast.ClassDef)
        if is_class or getattr(statement, "name", "") in _RESTORING:
            continue
        for each in ast.walk(statement):
            reason = _changes_namespace(each)
            if reason is not None:
                return reason
    for method in _methods(node):
        for call in _setattr_calls(method):
            if not _literal_name(call):
                return f"line {call.lineno} sets attributes by name"
    return None


def _changes_namespace(node: ast.AST) -> str | None:
    """Says how an expression changes a ``__dict__`` or a namespace, or returns None."""
    if isinstance(node, ast.Call):
        name = dotted_name(node.func) or ""
        if name.endswith(("__dict__.update", "__dict__.setdefault")):
            copies = any((dotted_name(each) or "").endswith("__dict__") for each in node.args)
            return None if copies else f"line {node.lineno} sets attributes through __dict__"
        if name in ("exec", "locals", "vars"):
            return f"line {node.lineno} may change a namespace with {name}()"
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        owner = node.value if isinstance(node, ast.Subscript) else node
        if (dotted_name(owner) or "").endswith(".__dict__"):
            return f"line {node.lineno} sets attributes through __dict__"
    return None


_RESTORING = frozenset({"__setstate__", "__copy__", "__deepcopy__", "__reduce__", "__getstate__"})
"""Methods that give an object what another one of its class had."""


def _setattr_calls(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """Yields the ``setattr`` calls that may concern the method's own object."""
    arguments = method.args
    others = [*arguments.posonlyargs, *arguments.args][1:] + arguments.kwonlyargs
    foreign = {each.arg for each in others}
    for each in ast.walk(method):
        if isinstance(each, ast.Call) and len(each.args) > 1:
            name = dotted_name(each.func)
            owner = each.args[0]
            if name == "setattr" or (name or "").endswith("__setattr__"):
                if name == "setattr" and isinstance(owner, ast.Attribute):
                    continue
                if not (isinstance(owner, ast.Name) and owner.id in foreign):
                    yield each


def _literal_name(call: ast.Call) -> str | None:
    """Returns the name that ``setattr(x, "name", value)`` sets, where it is literal."""
    for each in call.args[:2]:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            return each.value
    return None
