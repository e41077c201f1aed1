"""The values of a design as Python: literals, fields of the model's arguments, expressions.

A value is a JSON literal, ``{"arg": NAME}``, ``{"layer_arg": NAME}`` (one entry for each layer) or
``{"expr": PYTHON}`` over ``args`` and ``layer_id``.
"""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
from collections.abc import Mapping
from typing import Any, cast

from scaffold.errors import TemplateError
from scaffold.templating.render import python_literal

Json = Mapping[str, Any]
NEVER = "False"
"""The guard of a part that a model does not have."""

ALWAYS = "True"

_LONG_TUPLE = 48
"""Longest text of a tuple whose repeated items are all written out."""


def value_text(value: Any) -> str:
    """Return a value as it is where ``args`` and ``layer_id`` are at hand."""
    if not isinstance(value, Mapping):
        return literal(value)
    value = cast("Json", value)
    if "arg" in value:
        return f"args.{value['arg']}"
    if "layer_arg" in value:
        return f"args.{value['layer_arg']}[layer_id]"
    return spelled(str(value["expr"]))


def simplified(part: Any) -> Any:
    """Return a part of a design in which expressions that are plain numbers are literals."""
    if isinstance(part, list):
        return [simplified(each) for each in cast("list[Any]", part)]
    if not isinstance(part, Mapping):
        return part
    part = cast("Json", part)
    if set(part) == {"expr"} and isinstance(part["expr"], str):
        try:
            return ast.literal_eval(part["expr"])
        except (SyntaxError, ValueError):
            return part
    return {key: simplified(value) for key, value in part.items()}


def literal(value: Any) -> str:
    """Return a JSON value as Python; a list becomes a tuple, written by its period."""
    if isinstance(value, list):
        return _tuple_text([literal(each) for each in cast("list[Any]", value)])
    if isinstance(value, Mapping):
        items = cast("Json", value).items()
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in items) + "}"
    return python_literal(value)


def default_text(field: Json) -> str:
    """Return the default of an argument, which may be an expression."""
    default = field.get("default")
    is_expression = isinstance(default, Mapping)
    return spelled(str(cast("Json", default)["expr"])) if is_expression else literal(default)


def _tuple_text(items: list[str]) -> str:
    """Return ``(a, b) * n`` where a long tuple repeats itself, else its items."""
    for period in range(1, len(items) // 2 + 1):
        whole = len(items) // period
        rest = items[whole * period :]
        # Up to four items are shorter written out.
        if len(items) > 4 and items == items[:period] * whole + rest and rest == items[: len(rest)]:
            text = f"{factor(_runs_text(items[:period]))} * {whole}"
            return f"{text} + {_runs_text(rest)}" if rest else text
    return _runs_text(items)


def _runs_text(items: list[str]) -> str:
    """Return ``(a,) * n + (b,)`` for a tuple that is too long to be listed, else its items."""
    if len(_plain_tuple(items)) <= _LONG_TUPLE:
        return _plain_tuple(items)
    runs = [(item, len(list(run))) for item, run in itertools.groupby(items)]
    # Runs of one or two items are no shorter than the items.
    if len(runs) > len(items) // 2:
        return _plain_tuple(items)
    return " + ".join(f"({item},)" + (f" * {n}" if n > 1 else "") for item, n in runs)


def _plain_tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def spelled(expression: str) -> str:
    """Return an expression on one line, its text in the quotes that ruff and Black choose."""
    line = " ".join(expression.split())
    pieces: list[str] = []
    column = 0
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        # A string with a prefix, such as r"..." or f"...", stays as it is.
        if token.type == tokenize.STRING and token.string[0] in "'\"":
            text = python_literal(ast.literal_eval(token.string))
            pieces += [line[column : token.start[1]], text]
            column = token.end[1]
    return "".join([*pieces, line[column:]])


def guard_of(part: Any) -> str:
    """Return the condition under which a part exists: ALWAYS, NEVER or an expression."""
    if part is None or part is False:
        return NEVER
    when = cast("Json", part).get("when", True) if isinstance(part, Mapping) else True
    return ALWAYS if when is None else value_text(when)


def has(part: Any) -> bool:
    """Return whether a model has a part, at least under some config."""
    return guard_of(part) != NEVER


def given(value: Any) -> bool:
    """Return whether an optional value is there at all; null is the same as absent."""
    return value is not None


def told(part: Json, **usual: Any) -> list[str]:
    """Return the options of a part that are there and not as usual, as keywords of a call."""
    return [
        f"{name}={value_text(part[name])}"
        for name, value in usual.items()
        if given(part.get(name)) and part[name] != value
    ]


def fixed(part: Json, key: str, usual: Any) -> Any:
    """Return an option that decides what is written, and so cannot follow the config.

    Args:
        usual: What it is when the design does not say.

    Raises:
        TemplateError: The design reads it from the arguments.
    """
    value = part.get(key, usual)
    if isinstance(value, Mapping):
        raise TemplateError(
            f"{key!r} of a part follows the config ({value_text(value)}); only models in which it "
            "is always the same can be written",
            code="template_invalid",
        )
    return value


def factor(text: str) -> str:
    """Return an expression in brackets where multiplying it would tear it apart."""
    node = ast.parse(text, mode="eval").body
    loose = ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.UnaryOp | ast.Lambda
    # `a * b` and `a ** 2` stay whole beside another factor.
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.Mult)
    return f"({text})" if isinstance(node, loose) and not power else text


def product(*values: Any) -> str:
    """Return the product of values, such as the width of a projection."""
    texts = [factor(value_text(value)) for value in values]
    return " * ".join(text for text in texts if text != "1") or "1"
