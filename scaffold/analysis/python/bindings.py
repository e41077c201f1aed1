"""What a name can be bound to in a body of statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from scaffold.analysis.python.signatures import Signature


class ImportBinding(NamedTuple):
    """A name bound by an import.

    Args:
        line: Where it is, from 1.
        level: The number of leading dots.
        module: The module named, without dots; may be empty.
        name: The name taken from it; None for ``import module``.
        for_types: Whether it is under ``if TYPE_CHECKING``.
    """

    line: int
    level: int
    module: str
    name: str | None
    for_types: bool = False


class FunctionBinding(NamedTuple):
    """A function, as its ``def`` binds it.

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


class ClassBinding(NamedTuple):
    """A class, as its ``class`` statement binds it.

    Args:
        line: The line of its ``class``, from 1.
        name: Its name.
        bases: The bases' dotted names as written, without ``[...]``; ``?`` for other expressions.
        keywords: Keyword arguments of the ``class`` line as written.
        decorators: As for a function; arguments of ``dataclass`` are in ``options``.
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


class FieldBinding(NamedTuple):
    """An annotated name in a class body.

    Args:
        name: The name.
        line: Where it is, from 1.
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


class ValueBinding(NamedTuple):
    """An assigned name, or one that is only annotated.

    Args:
        line: Where it is, from 1.
        alias: The dotted name that it is set to (``a = b.c``), or None.
        call: The dotted name of the call that makes it (``a = b.c(...)``), or None.
        is_bound: Whether it has a value at all; ``x: int`` in a module has none.
        is_none: Whether that is ``None``, the value of what could not be imported.
    """

    line: int
    alias: str | None = None
    call: str | None = None
    is_bound: bool = True
    is_none: bool = False


Binding = ImportBinding | FunctionBinding | ClassBinding | ValueBinding


@dataclass(slots=True)
class Scope:
    """The names that the body of a module, class or function binds.

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
        """Add one more binding of a name."""
        self.names.setdefault(name, []).append(binding)
