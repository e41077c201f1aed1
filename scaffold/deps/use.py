"""One use of a package in a tree, and what an audit finds about it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from scaffold.analysis.python.follower import ELEMENT
from scaffold.analysis.python.guards import NO_GUARD, Guard
from scaffold.findings import Finding, Severity
from scaffold.report import Step

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

Level = Literal["breaks", "check", "deprecated", "guarded", "undecided"]

LEVELS: dict[str, str] = {
    "breaks": "The use fails, or does nothing, with the new release.",
    "check": "It runs, but may behave differently.",
    "deprecated": "It runs, and the new release announces that it will not for long.",
    "guarded": "It would fail, and the code around it provides for that.",
    "undecided": "The text of the releases does not decide it; look at it, or run it.",
}
"""How grave a judgement is, the gravest first."""

SEVERITIES: dict[Level, Severity] = {
    "breaks": "error",
    "check": "warning",
    "deprecated": "warning",
    "guarded": "note",
    "undecided": "note",
}

VERDICTS: dict[str, str] = {
    "removed": "The name is gone.",
    "moved": "The name is gone from there, and is in another module.",
    "renamed": "The name is gone, and another one does its work.",
    "kind-changed": "A method became a property or a coroutine, or the other way round.",
    "parameter-removed": "The call gives a keyword that is no longer taken.",
    "parameter-renamed": "The call gives a keyword that has another name now.",
    "parameter-required": "The call omits an argument that is now required.",
    "too-many-arguments": "The call gives more by position than is taken.",
    "reordered": "An argument given by position fills another parameter now.",
    "keyword-refused": "The keyword falls into **kwargs, and the body raises for it.",
    "keyword-unread": "The keyword falls into **kwargs, and nothing reads it.",
    "absence-hidden": "The name is gone, and getattr() or hasattr() hides it.",
    "default-changed": "The call omits a parameter whose default changed.",
    "override-gone": "The member that a subclass overrides is gone: nothing calls it.",
    "override-signature": "The member that a subclass replaces takes other parameters.",
    "abstract-added": "A subclass lacks a member that is abstract now.",
    "deprecated": "The name is marked as deprecated.",
    "parameter-deprecated": "The call gives a parameter that warns.",
    "unclear": "The name was there; whether it still is does not show.",
    "undecided": "Whether it is there, or what it takes, does not show.",
}
"""Every verdict and what it means."""

_TYPE_ERRORS = frozenset(
    {"parameter-removed", "parameter-renamed", "parameter-required", "too-many-arguments"}
)


def dotted(parts: tuple[str, ...]) -> str:
    """Return a chain as text: ``click.Context().exit``, ``pkg.rows()[].name``."""
    return ".".join(parts).replace(".()", "()").replace(f".{ELEMENT}()", "[]")


@dataclass(frozen=True)
class Use:
    """One use of a package.

    Args:
        parts: What is used, see `scaffold.analysis.python.follower.Chain`.
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
        return dotted(self.parts)

    def to_json(self) -> dict[str, Any]:
        row = {"kind": self.kind, "name": self.name, "file": self.path, "line": self.line}
        return row | {"detail": self.detail, "guard": self.guard.text, "through": self.local}


@dataclass(frozen=True)
class Change:
    """What a release changes for a use.

    Args:
        verdict: One of VERDICTS.
        level: One of LEVELS.
        likely: The name to take instead, or "".
        argument: The argument of the call, or the part of the name, that it is about, or "".
        evidence: What the new release has, with its place.
    """

    verdict: str
    level: Level
    why: str
    likely: str = ""
    argument: str = ""
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class Judgement(Change):
    """What an audit has found about one use: what changes for it.

    Args:
        old: What the old release has, with its place.
    """

    use: Use
    old: str = ""

    def guarded(self, lost: int | None) -> Judgement:
        """Return the finding, softened where the code around it catches just this.

        Args:
            lost: Which part of the use's name is not there any more; None where all are.
        """
        if self.level != "breaks":
            return self
        name = "" if lost is None else self.use.parts[lost]
        is_covered = self.use.guard.covers(self._raised(lost), name)
        return replace(self, level="guarded") if is_covered else self

    def _raised(self, lost: int | None) -> str:
        """Return the exception by which the use fails; "" where it runs on."""
        use = self.use
        if lost is not None:
            # The import fails, and not what follows it.
            if use.kind == "import" or lost < use.imported:
                # `import a.b` takes modules alone; of `from a import b` the last may be a name.
                is_name = not isinstance(use.node, ast.alias) or use.node.name != use.name
                whole = len(use.parts) if use.kind == "import" else use.imported
                return "ImportError" if is_name and lost == whole - 1 else "ModuleNotFoundError"
            return "" if use.kind == "override" else "AttributeError"
        if self.verdict == "keyword-refused":
            return "Exception"  # what the body raises is its own matter
        is_call = self.verdict in _TYPE_ERRORS or (self.verdict == "kind-changed" and use.call)
        return "TypeError" if is_call else ""

    @property
    def is_unsure(self) -> bool:
        """Whether the text of the releases does not decide it."""
        return self.verdict in ("unclear", "undecided")

    @property
    def step(self) -> Step:
        instead = f"; likely {self.likely}" if self.likely else ""
        text = f"{self.verdict}: {self.use.name}: {self.why}{instead}"
        return Step(self.use.path, self.use.line, text)

    @property
    def finding(self) -> Finding:
        """The judgement for writers that know files, lines and rules alone."""
        likely = self.likely and f"likely {self.likely}"
        evidence = f"old: {self.old}; new: {self.evidence}" if self.old else ""
        return Finding(
            self.use.path, self.use.line, 1, self.verdict, self.use.name,
            f"{self.use.name}: {self.why}", evidence, likely, SEVERITIES[self.level],
            "low" if self.is_unsure else "high",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        row = {**self.use.to_json(), "verdict": self.verdict, "level": self.level}
        evidence = {"old": self.old, "new": self.evidence}
        return {**row, "why": self.why, "evidence": evidence, "likely": self.likely}
