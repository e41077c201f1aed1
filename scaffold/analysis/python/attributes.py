"""The attributes that a class's methods set, and whether that is all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.python.statements import all_nodes, dotted_name, source_is, statements

SETTING = (b"__dict__", b"setattr", b"exec", b"locals", b"vars")
"""Without one of these words in a text its classes get no attributes but those it assigns."""


def _methods(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield each


def instance_names(body: Sequence[ast.stmt], *, may_set_by_name: bool) -> dict[str, int]:
    """Find ``self.x = ...``, ``cls.x = ...`` and the names in ``__slots__``.

    Args:
        body: The statements of a class, those inside of others among them.
        may_set_by_name: Whether ``setattr`` is worth looking for.
    """
    found: dict[str, int] = {}
    for method in _methods(body):
        # The first parameter is the receiver by position, whatever its name.
        receiver = next((each.arg for each in [*method.args.posonlyargs, *method.args.args]), None)
        for target in _targets(method.body):
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == receiver
            ):
                found.setdefault(target.attr, target.lineno)
        for call in _setattr_calls(method) if may_set_by_name else ():
            name = _literal_name(call)
            if name is not None:
                found.setdefault(name, call.lineno)
    for each in body:
        if isinstance(each, ast.Assign) and any(
            source_is(target, frozenset({"__slots__"})) for target in each.targets
        ):
            # `__slots__ = ("a", "b")`, a list, a dict with descriptions, or one name in quotes.
            for text in all_nodes(each.value):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.setdefault(text.value, text.lineno)
    return found


def _targets(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Yield every assigned expression of a body, nested functions' among them."""
    for node, _ in statements(body):
        # A closure inside a method sets attributes of the same object.
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


def why_dynamic(body: Sequence[ast.stmt]) -> str | None:
    """Return why a class may hold attributes that its text does not name, or None."""
    for statement in body:
        # A nested class is a namespace of its own and is judged when it is asked for itself.
        is_class = isinstance(statement, ast.ClassDef)
        if is_class or getattr(statement, "name", "") in _RESTORING:
            continue
        for each in all_nodes(statement):
            reason = _changes_namespace(each)
            if reason is not None:
                return reason
    for method in _methods(body):
        for call in _setattr_calls(method):
            if not _literal_name(call):
                return f"line {call.lineno} sets attributes by name"
    return None


def _changes_namespace(node: ast.AST) -> str | None:
    """Return how an expression changes a ``__dict__`` or a namespace, or None."""
    if isinstance(node, ast.Call):
        name = dotted_name(node.func) or ""
        if name.endswith(("__dict__.update", "__dict__.setdefault")):
            # `self.__dict__.update(other.__dict__)` is taken for a copy within one class.
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
    """Yield the ``setattr`` calls that may concern the method's own object."""
    arguments = method.args
    others = [*arguments.posonlyargs, *arguments.args][1:] + arguments.kwonlyargs
    # `setattr(config, name, value)` on another parameter leaves this object alone.
    foreign = {each.arg for each in others}
    for each in all_nodes(method):
        if isinstance(each, ast.Call) and len(each.args) > 1:
            name = dotted_name(each.func)
            owner = each.args[0]
            if name == "setattr" or (name or "").endswith("__setattr__"):
                # setattr(self.inner, ...) changes another object.
                if name == "setattr" and isinstance(owner, ast.Attribute):
                    continue
                if not (isinstance(owner, ast.Name) and owner.id in foreign):
                    yield each


def _literal_name(call: ast.Call) -> str | None:
    """Return the name that ``setattr(x, "name", value)`` sets, where it is literal."""
    # object.__setattr__(self, "x", v) has the name second, super().__setattr__("x", v) first.
    for each in call.args[:2]:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            return each.value
    return None
