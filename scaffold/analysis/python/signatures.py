"""What a function takes, read from its ``def`` and nothing else."""

from __future__ import annotations

import ast
from typing import Literal, NamedTuple

ParameterKind = Literal[
    "positional_only", "positional_or_keyword", "var_positional", "keyword_only", "var_keyword"
]


class Parameter(NamedTuple):
    """One parameter of a function.

    Args:
        name: Its name, without stars.
        kind: How it is filled, in the words of ``inspect``.
        has_default: Whether a call may leave it out.
        annotation: Its type as written, or None.
        default: Its default as written, or None.
    """

    name: str
    kind: ParameterKind
    has_default: bool = False
    annotation: str | None = None
    default: str | None = None

    def __str__(self) -> str:
        stars = {"var_positional": "*", "var_keyword": "**"}.get(self.kind, "")
        text = f"{stars}{self.name}"
        if self.annotation is not None:
            text += f": {self.annotation}"
        if self.has_default:
            sign = "=" if self.annotation is None else " = "
            text += f"{sign}{self.default or '...'}"
        return text


class Signature(NamedTuple):
    """The parameters that a call has to fit.

    Args:
        name: The last part of the callable's name.
        parameters: In order, without the receiver (``self`` or ``cls``).
        path: The file it is in, relative to the root.
        line: The line of it, from 1.
        receiver: The dropped first parameter of a method; None for a function.
    """

    name: str
    parameters: tuple[Parameter, ...]
    path: str = ""
    line: int = 1
    receiver: Parameter | None = None

    def __str__(self) -> str:
        parts: list[str] = []
        starred = False
        for index, each in enumerate(self.parameters):
            if each.kind == "keyword_only" and not starred:
                parts.append("*")
            starred = starred or each.kind in ("keyword_only", "var_positional")
            parts.append(str(each))
            following = self.parameters[index + 1 : index + 2]
            if each.kind == "positional_only" and not any(
                later.kind == "positional_only" for later in following
            ):
                parts.append("/")
        return f"{self.name}({', '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a call may give by keyword."""
        kinds = ("positional_or_keyword", "keyword_only")
        return tuple(each.name for each in self.parameters if each.kind in kinds)

    @property
    def slots(self) -> list[str]:
        """The parameters that a call may fill by position."""
        return [each.name for each in self.parameters if each.kind.startswith("positional")]

    @property
    def takes_any_place(self) -> bool:
        """Whether it has ``*args``."""
        return any(each.kind == "var_positional" for each in self.parameters)

    @property
    def takes_any_keyword(self) -> bool:
        """Whether it has ``**kwargs``."""
        return any(each.kind == "var_keyword" for each in self.parameters)

    def bound(self) -> Signature:
        """Return the signature that a caller of an instance sees: without the first parameter."""
        first = self.parameters[0] if self.parameters else None
        if first is None or first.kind == "keyword_only" or first.kind == "var_keyword":
            return self
        # def f(*args) takes the receiver into args, so no parameter goes away.
        if first.kind == "var_positional":
            return self._replace(receiver=first)
        return self._replace(parameters=self.parameters[1:], receiver=first)


def read_signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    """Read the signature of a ``def``, with its receiver still in it."""
    return Signature(node.name, read_parameters(node.args), line=node.lineno)


def read_parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """Read the parameters of a ``def`` or a ``lambda``."""
    found: list[Parameter] = []
    plain = [*arguments.posonlyargs, *arguments.args]
    # ast keeps one list of defaults for both kinds, aligned to the right.
    required = len(plain) - len(arguments.defaults)
    for index, each in enumerate(plain):
        default = arguments.defaults[index - required] if index >= required else None
        only = index < len(arguments.posonlyargs)
        kind: ParameterKind = "positional_only" if only else "positional_or_keyword"
        found.append(_parameter(each, kind, default))
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, "var_positional", None))
    # kw_defaults has a None for each keyword-only parameter without a default.
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(each, "keyword_only", default))
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, "var_keyword", None))
    return tuple(found)


_PLAIN = frozenset({str, int, bool, type(None)})
"""The types of constants that are in a source as ``repr`` writes them."""


def source_of(node: ast.expr | None) -> str | None:
    """Return an expression as text on one line; None where there is none or it is too deep."""
    if node is None:
        return None
    # As most annotations and defaults are; the general way costs much more.
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and type(node.value) in _PLAIN and node.kind is None:
        return repr(node.value)
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return "..."


def _parameter(node: ast.arg, kind: ParameterKind, default: ast.expr | None) -> Parameter:
    annotation = source_of(node.annotation)
    return Parameter(node.arg, kind, default is not None, annotation, source_of(default))
