"""Sizes and conditions that rules take from a model's arguments."""

from __future__ import annotations

import ast
from functools import reduce
from typing import Any

from areal.api.errors import ConfigError


def size_of(size: int | str, args: Any, layer: int | None = None) -> int:
    """Return a size that a rule names.

    Args:
        size: A number, or fields of the arguments and numbers joined by ``*`` and ``//``, taken
            from the left: ``"n_heads"``, ``"head_dim // 2"``, ``"moe_args.num_experts"``.
        args: The model's arguments.
        layer: The layer, for fields that list one value for each.

    Raises:
        ConfigError: There is no such field, or it is no number.
    """
    if isinstance(size, int):
        return size
    words = size.split()
    value = _term(words[0], args, layer)
    for sign, term in zip(words[1::2], words[2::2], strict=True):
        operand = _term(term, args, layer)
        value = value * operand if sign == "*" else value // operand
    return value


def _term(term: str, args: Any, layer: int | None) -> int:
    if term.isdigit():
        return int(term)
    value = field_of(term, args)
    if isinstance(value, list | tuple) and layer is not None:
        value = value[layer]
    if not isinstance(value, int):
        raise ConfigError(f"{term!r} of the model's arguments is {value!r}, not a number")
    return value


def field_of(path: str, args: Any) -> Any:
    """Return a field of the arguments, or of an object in them, by its dotted name.

    Raises:
        ConfigError: There is none.
    """
    try:
        return reduce(getattr, path.split("."), args)
    except AttributeError as error:
        raise ConfigError(f"the model's arguments have no field {path!r}") from error


def applies(when: str | None, args: Any) -> bool:
    """Return whether a rule's condition holds.

    Args:
        when: A boolean field, or ``field == literal``; ``not`` in front for the opposite; None for
            always.
        args: The model's arguments.
    """
    if when is None:
        return True
    field, _, literal = when.removeprefix("not ").partition(" == ")
    value = field_of(field, args)
    holds = value == ast.literal_eval(literal) if literal else bool(value)
    return holds != when.startswith("not ")
