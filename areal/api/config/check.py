"""How single values are checked, with one wording for all dataclasses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names


class FieldError(ConfigError):
    """A field's impossible value; whoever knows the field's dotted key can name it.

    Attributes:
        owner: The dataclass.
        name: The field.
        problem: What is wrong with it, to be put behind its name.
    """

    def __init__(self, owner: type, name: str, problem: str) -> None:
        super().__init__(f"{owner.__name__}.{name} {problem}")
        self.owner = owner
        self.name = name
        self.problem = problem


def fail(owner: object, name: str, rule: str, value: object) -> NoReturn:
    """Raise the error of a field that must keep a rule and does not."""
    raise FieldError(type(owner), name, f"must {rule}, found {value!r}")


def one_of(owner: object, name: str, known: Iterable[str]) -> None:
    """Raise unless the field holds one of the known words."""
    value = getattr(owner, name)
    if value not in set(known):
        problem = f"is {value!r}, which is unknown{nearest_names(str(value), known)}"
        raise FieldError(type(owner), name, problem)


def at_least(owner: object, bound: float, *names: str) -> None:
    """Raise unless each field is None or not less than the bound."""
    for name in names:
        value = getattr(owner, name)
        # Written so that NaN fails too.
        if value is not None and not value >= bound:
            fail(owner, name, f"be at least {bound}", value)


def above(owner: object, bound: float, *names: str) -> None:
    """Raise unless each field is None or greater than the bound."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not value > bound:
            fail(owner, name, f"be greater than {bound}", value)


def absent(owner: object, name: str, reason: str) -> None:
    """Raise unless the field is null or an empty mapping."""
    value: Any = getattr(owner, name)
    if value is not None and value != {}:
        raise FieldError(type(owner), name, f"must be null: {reason}")
