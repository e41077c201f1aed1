"""Where a registry is written: from an address in a file's syntax tree to the parts of its value.

An address is ``NAME``, ``Class.NAME``, ``NAME["key"]`` or ``NAME(keyword)``, in any depth; the last
one means the argument of the call that the name is assigned. It is looked for among the statements
of the module or class, those in ``if``, ``try`` and ``with`` blocks too, and inside dictionary
literals. A list may have several parts: what it is assigned, and what it grows by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from scaffold.edit.forms import dict_displays
from scaffold.edit.python_file import parse_expression

_GROW = {"extend", "update"}
_ADD = {"append", "add"}

How = Literal["assigned", "grown", "extended", "unpacked", "imported"]


@dataclass(frozen=True)
class Part:
    """One statement about a registry.

    Args:
        how: "assigned" a value; "grown" by another one, "extended" by a single item; bound to
            something "unpacked" or "imported", which has no value here.
        value: The value, or None.
        line: The statement's line, from 1.
        is_conditional: Whether it is in a block that may not run.
    """

    how: How
    value: ast.expr | None
    line: int
    is_conditional: bool = False


def find_parts(tree: ast.Module, address: str) -> list[Part]:
    """Return every statement about a registry, in the order of the file.

    Raises:
        SyntaxError: The address is none.
    """
    return sorted(_find(tree.body, parse_expression(address)), key=lambda part: part.line)


def _find(body: Sequence[ast.stmt], address: ast.expr) -> Iterator[Part]:
    # `Class.NAME = ...` and `NAME["key"] = ...` also occur spelled out as assignment targets.
    yield from _stated(body, address)
    if isinstance(address, ast.Attribute):
        for inner in class_bodies(body, address.value):
            yield from _find(inner, ast.Name(address.attr))
    elif isinstance(address, ast.Subscript):
        for part in _find(body, address.value):
            # An item that is appended, "extended" here, is no dictionary to look the key up in.
            if part.value is not None and part.how in ("assigned", "grown"):
                yield from _in_dict(part, ast.dump(address.slice))
    elif isinstance(address, ast.Call):
        for part in _find(body, address.func):
            yield from _in_call(part, address)
    elif not isinstance(address, ast.Name):
        raise SyntaxError(f"{ast.unparse(address)} is not an address of a registry")


def _in_dict(part: Part, key: str) -> Iterator[Part]:
    for display in dict_displays(part.value):
        for each, value in zip(display.keys, display.values, strict=True):
            if each is not None and ast.dump(each) == key:
                yield Part("assigned", value, value.lineno, part.is_conditional)


def _in_call(part: Part, address: ast.Call) -> Iterator[Part]:
    keyword = address.args[0] if len(address.args) == 1 and not address.keywords else None
    if not isinstance(keyword, ast.Name):
        raise SyntaxError(f"{ast.unparse(address)} names no keyword of a call")
    for each in part.value.keywords if isinstance(part.value, ast.Call) else ():
        if each.arg == keyword.id:
            yield Part("assigned", each.value, each.value.lineno, part.is_conditional)


def class_bodies(body: Sequence[ast.stmt], name: ast.expr) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of every class of a name among statements and the plain blocks in them."""
    # `A.B` is class B in the bodies of class A: the owner is resolved first, then its last name.
    bodies: list[Sequence[ast.stmt]] = [body]
    if isinstance(name, ast.Attribute):
        bodies = list(class_bodies(body, name.value))
        name = ast.Name(name.attr)
    for each in bodies:
        for statement, _ in _walk(each):
            # A class may be defined in each branch of an if; all of its bodies count.
            is_named = isinstance(name, ast.Name) and getattr(statement, "name", "") == name.id
            if isinstance(statement, ast.ClassDef) and is_named:
                yield statement.body


def _walk(
    body: Sequence[ast.stmt], is_conditional: bool = False
) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements of a body and of the plain blocks in it."""
    for statement in body:
        yield statement, is_conditional
        if isinstance(statement, ast.With):
            yield from _walk(statement.body, is_conditional)
        elif isinstance(statement, ast.If):
            # The condition is not evaluated: a part in either arm is taken for one that may not
            # run.
            yield from _walk([*statement.body, *statement.orelse], True)
        elif isinstance(statement, ast.Try | ast.TryStar):
            # Of all parts of a try only the last is sure to run.
            handlers = [each for handler in statement.handlers for each in handler.body]
            yield from _walk([*statement.body, *handlers, *statement.orelse], True)
            yield from _walk(statement.finalbody, is_conditional)


def _stated(body: Sequence[ast.stmt], address: ast.expr) -> Iterator[Part]:
    name = ast.unparse(address)
    for statement, is_conditional in _walk(body):
        for how, value in _about(statement, name):
            yield Part(how, value, statement.lineno, is_conditional)


def _about(statement: ast.stmt, name: str) -> Iterator[tuple[How, ast.expr | None]]:
    match statement:
        case ast.Assign():
            if any(_is(target, name) for target in statement.targets):
                yield "assigned", statement.value
            elif any(_unpacks(target, name) for target in statement.targets):
                yield "unpacked", None
        # A bare `NAME: dict[str, str]` declares a type and assigns nothing.
        case ast.AnnAssign(value=ast.expr()):
            if _is(statement.target, name):
                yield "assigned", statement.value
        case ast.AugAssign():
            if _is(statement.target, name):
                yield "grown", statement.value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method), args=[given])):
            if method in _GROW | _ADD and _is(owner, name):
                yield ("grown" if method in _GROW else "extended"), given
        case ast.Import() | ast.ImportFrom():
            if any((alias.asname or alias.name) == name for alias in statement.names):
                yield "imported", None
        case _:
            pass


def _is(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Name):
        return target.id == name
    return isinstance(target, ast.Attribute | ast.Subscript) and ast.unparse(target) == name


def _unpacks(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Tuple | ast.List) and any(_is(e, name) for e in target.elts)


def is_dead(tree: ast.Module, line: int) -> bool:
    """Return whether a line is in the body of a condition that is plainly never true."""
    return any(
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Constant)
        and not node.test.value
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
        for node in ast.walk(tree)
    )
