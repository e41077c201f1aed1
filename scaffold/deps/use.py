"""One use of a package in a tree: its place, what it names, how it is used."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Literal

from scaffold.analysis.python.follower import ELEMENT
from scaffold.analysis.python.guards import NO_GUARD, Guard

Kind = Literal[
    "import", "call", "subclass", "override", "patch", "reference", "attribute", "string"
]

KINDS: dict[str, str] = {
    "import": "Imports",
    "call": "Calls",
    "subclass": "Subclasses",
    "override": "Members that subclasses define",
    "patch": "Patched members",
    "reference": "Other references",
    "attribute": "Attributes asked for by name",
    "string": "Names in strings and files",
}
"""Every kind of use with its heading, in the order of the page."""


def dotted(parts: tuple[str, ...]) -> str:
    """Return a chain as text: ``click.Context().exit``, ``pkg.rows()[].name``."""
    return ".".join(parts).replace(".()", "()").replace(f".{ELEMENT}()", "[]")


@dataclass(frozen=True)
class Use:
    """One use of a package.

    Args:
        kind: How the name is used.
        parts: What is used, see `scaffold.analysis.python.follower.Chain`.
        path: The file, relative to the root.
        line: The line, from 1.
        detail: The line, for the reader of a list.
        guard: Why, and how far, the code does without it where it is missing.
        call: The call itself, for what binds it.
        node: The class or method of the tree, for what compares it; of an import its name.
        local: The class of this tree through which it is reached, or "".
        imported: How many of its first parts the source has by an import.
        is_awaited: Whether the call is awaited.
        is_handed_on: Whether what the call gives is not used there, and may be awaited elsewhere.
        at: The line of its last name and the column in bytes; None where that is in a string.
    """

    kind: Kind
    parts: tuple[str, ...]
    path: str
    line: int
    detail: str = ""
    guard: Guard = NO_GUARD
    call: ast.Call | None = field(default=None, compare=False, repr=False)
    node: ast.AST | None = field(default=None, compare=False, repr=False)
    local: str = ""
    imported: int = field(default=0, compare=False, repr=False)
    is_awaited: bool = field(default=False, compare=False, repr=False)
    is_handed_on: bool = field(default=False, compare=False, repr=False)
    at: tuple[int, int] | None = field(default=None, repr=False)

    @property
    def is_star(self) -> bool:
        """Whether it imports all names."""
        return isinstance(self.node, ast.alias) and self.node.name == "*"

    @property
    def name(self) -> str:
        """What is used, as text."""
        return dotted(self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the use as JSON has it."""
        row = {"kind": self.kind, "name": self.name, "file": self.path, "line": self.line}
        return row | {"detail": self.detail, "guard": self.guard.text, "through": self.local}
