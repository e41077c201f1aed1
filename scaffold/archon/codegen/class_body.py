"""Puts together ``__init__`` and ``forward`` of one generated module."""

from __future__ import annotations

from typing import Any, cast

from scaffold.archon.codegen.source import Source, function_text
from scaffold.archon.codegen.values import ALWAYS, NEVER, value_text


class ModuleBody:
    """Collects the statements of a module's ``__init__`` and what ``forward`` needs from it.

    Args:
        source: The file, for imports.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.setup: list[str] = []
        self.steps: list[str] = []
        self._stored: dict[str, str] = {}

    def stored(self, name: str, value: Any) -> str:
        """Return a value as ``forward`` writes it: a literal, or an attribute set in ``__init__``.

        Args:
            name: What the attribute is called where the value is no field of the arguments.
        """
        if not isinstance(value, dict):
            return value_text(value)
        # What is one argument keeps the argument's name.
        field = cast("dict[str, Any]", value).get("arg", name)
        return self.kept(str(field), value_text(value))

    def kept(self, name: str, text: str) -> str:
        """Return ``self.name``, which ``__init__`` sets to an expression, once."""
        first = name
        number = 1
        # Two values of one name, as two scales are: the second gets a number.
        while self._stored.get(name, text) != text:
            number += 1
            name = f"{first}_{number}"
        if name not in self._stored:
            self._stored[name] = text
            self.setup.append(f"self.{name} = {text}")
        return f"self.{name}"

    def flag(self, name: str, guard: str) -> str:
        """Return a condition as ``forward`` writes it; ALWAYS and NEVER stay."""
        if guard in (ALWAYS, NEVER):
            return guard
        # A flag that is a field of the arguments keeps the field's name.
        field = guard.removeprefix("args.")
        return self.kept(field if field.isidentifier() else name, guard)

    def step(self, line: str, guard: str = ALWAYS) -> None:
        """Add a statement to ``forward``, under its condition if it has one."""
        if guard == ALWAYS:
            self.steps.append(line)
        elif guard != NEVER:
            opened = f"if {guard}:"
            # Consecutive statements under one condition share it.
            if not self._is_inside(opened):
                self.steps.append(opened)
            self.steps.append(f"    {line}")

    def _is_inside(self, opened: str) -> bool:
        for line in reversed(self.steps):
            # The statements that opened before are indented; the first one that is not is the
            # condition.
            if not line.startswith("    "):
                return line == opened
        return False

    def methods(self, init: str, forward: str) -> list[str]:
        """Return both methods, given their signatures."""
        return [
            function_text(init, ["super().__init__()", *self.setup]),
            function_text(forward, self.steps),
        ]


def maybe(text: str, guard: str, otherwise: str) -> str:
    """Return a constructor call, or what takes its place under a guard."""
    if guard == ALWAYS:
        return text
    return otherwise if guard == NEVER else f"{text} if {guard} else {otherwise}"


def model_value(value: Any) -> str:
    """Return a value as it is in the methods of a model, which keeps its arguments."""
    return value_text(value).replace("args.", "self.model_args.")
