"""The sandbox that templates run in: no attributes but the plain ones, and bounds on all they make.

Templates come from repositories and packages too. They reach no Python objects, and what they
compute is counted: the steps, and the characters and items of every value that is made.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_STEPS = 50_000
"""How many lines of templates' code run for one unit; the largest of ours takes some hundred."""

MAX_SIZE = 8 * 1024 * 1024
"""How many characters and items templates make and look through for one unit, all together."""

MAX_BITS = 1024
"""How long a number gets."""

_TEXT = frozenset(
    [
        "capitalize", "casefold", "count", "endswith", "find", "isalpha", "isdigit", "islower",
        "isupper", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rfind",
        "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title",
        "upper",
    ]
)  # fmt: skip
_ATTRIBUTES: tuple[tuple[type, frozenset[str] | None], ...] = (
    (str, _TEXT),
    (list, frozenset(["count", "index"])),
    (tuple, frozenset(["count", "index"])),
    (dict, frozenset(["get", "items", "keys", "values"])),
    (LoopContext, None),
    (Macro, frozenset(["name", "arguments"])),
    (TemplateModule, None),
    (TemplateReference, None),
    (BlockReference, frozenset(["super"])),
)
"""Types to the attributes that templates may use; None for all that are public."""

_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items",
    "last", "length", "list", "lower", "max", "min", "reverse", "sort", "string", "title", "trim",
    "unique", "upper",
)  # fmt: skip
"""The filters of Jinja that make nothing longer than what they get."""


_SLOW = ("dictsort", "sort", "unique")
"""Those of them that take longer than to look at each item once, by about the next factor."""

_SLOWNESS = 16


class FreeText(str):
    """An answer that may hold anything, so that templates can only output it quoted."""


class _Generator(CodeGenerator):
    """Lets the sandbox join what ``~`` joins."""

    # Jinja looks for the visitor by the name of the node's class.
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.joined((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """Where the templates of one unit are rendered; it counts what they do."""

    code_generator_class = _Generator
    # `-` and `/` make nothing that is larger than what they get.
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._left = MAX_SIZE
        # What Jinja offers by default, as `range` and `lipsum`, makes text that nobody counts.
        self.globals.clear()
        kept = {name: self._charged(name, self.filters[name]) for name in _FILTERS}
        own = {"indent": self._indent, "join": self._join, "replace": self._replace}
        self.filters = {**kept, **own, "round": _round}
        # Jinja calls it with the pieces of a template, a macro or a block.
        self.concat = self._concat  # pyright: ignore[reportAttributeAccessIssue]

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may use an attribute."""
        # Refused unless listed: of a type that nobody thought of, no attribute is safe.
        for kind, known in _ATTRIBUTES:
            if isinstance(obj, kind):
                return not attr.startswith("_") and (known is None or attr in known)
        return False

    def wrap_str_format(self, value: Any) -> None:
        """Keep Jinja from letting text format other values: a width is a length of any size."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute what could become large, if it does not."""
        if operator == "%" and isinstance(left, str):
            raise SecurityError("text is not formatted with %; write {{ variables }}")
        if operator == "*":
            # The list or text may be on either side: `"a" * 9` and `9 * "a"`.
            self._spend(_size(left) * right if isinstance(right, int) else 0)
            self._spend(_size(right) * left if isinstance(left, int) else 0)
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            # Before it is computed: 9 ** 9 ** 9 would take all memory within one step.
            bits = left.bit_length()
            if (bits * right if operator == "**" else bits + right.bit_length()) > MAX_BITS:
                raise SecurityError("a number grows too long")
        if operator == "+":
            self._spend(_size(left) + _size(right))
            if isinstance(left, str) and isinstance(right, str):
                return _as_free(str(left) + str(right), (left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **named: Any) -> Any:
        """Call what a template may call: a method of a value, or a macro."""
        # A method goes over the value that it belongs to, as `count` of a long text does.
        self._spend(_size(getattr(obj, "__self__", None)))
        return super().call(context, obj, *args, **named)

    def joined(self, parts: Iterable[Any]) -> str:
        """Return what ``~`` makes of its operands; one that has to be quoted makes it so too."""
        found = list(parts)
        return _as_free(self._concat(map(str, found)), found)

    def _concat(self, parts: Iterable[str]) -> str:
        found: list[str] = []
        for part in parts:
            # One more than its length, so that empty pieces are not free.
            self._spend(len(part) + 1)
            found.append(part)
        return "".join(found)

    def _charged(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        factor = _SLOWNESS if name in _SLOW else 1

        @functools.wraps(function)  # with the marks by which Jinja passes its own arguments
        def charged(*args: Any, **named: Any) -> Any:
            self._spend(factor * sum(map(_size, args)))
            return function(*args, **named)

        return charged

    def _join(self, items: Iterable[Any], between: str = "") -> str:
        parts: list[Any] = []
        for item in items:
            self._spend(len(str(item)) + len(between))
            parts.append(item)
        return _as_free(between.join(map(str, parts)), parts)

    def _indent(self, text: str, width: int = 4, first: bool = False) -> str:
        self._spend(len(text) + (text.count("\n") + 1) * width)
        rows = text.split("\n")
        inner = [" " * width + row if row else row for row in rows]
        return _as_free("\n".join(inner if first else [rows[0], *inner[1:]]), [text])

    def _replace(self, text: str, old: str, new: str) -> str:
        self._spend(len(text) + text.count(old) * len(new))
        return _as_free(str(text).replace(old, new), (text, new))

    def _spend(self, size: int) -> None:
        self._left -= max(size, 0)
        if self._left < 0:
            raise SecurityError("the template makes too much text")

    @contextmanager
    def limited_steps(self) -> Generator[None]:
        """Count the lines of templates that run inside, and stop one that does not end."""
        left = MAX_STEPS

        def in_template(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            left -= event == "line"
            if left < 0:
                raise SecurityError("the template takes too many steps")
            return in_template

        def on_call(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
            # Compiled templates have their environment among their globals, and other code has not.
            return in_template if frame.f_globals.get("environment") is self else None

        # Jinja offers no hook for a step; a trace function is called for each line that runs.
        before = sys.gettrace()
        sys.settrace(on_call)
        try:
            yield
        finally:
            sys.settrace(before)


def _round(number: float, digits: int = 0) -> float:
    """Round to the nearest; a great number of digits would be a long computation."""
    return round(number, min(max(digits, -15), 15))


def _as_free(text: str, parts: Iterable[Any]) -> str:
    return FreeText(text) if any(isinstance(part, FreeText) for part in parts) else text


def _size(value: Any) -> int:
    if isinstance(value, str | list | tuple | dict):
        return len(cast("str", value))
    return 0
