"""The answer to "what does this name mean?"."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal[
    "module",
    "class",
    "function",
    "constant",
    "attribute",
    "third_party",
    "undecided",
    "missing",
]


class Found(NamedTuple):
    """The meaning of a dotted name.

    Args:
        kind: What it is. A method is a ``function``; a property, a field and an attribute that a
            method sets are an ``attribute``; ``missing`` is certain, ``undecided`` is not.
        name: The dotted name as asked.
        path: The file that defines it, or that lacks it; None where no file is concerned.
        line: The line of the definition, from 1, or None.
        evidence: One sentence for a reader: where it is, or why it is not or cannot be known.
        near: For a missing name, the closest one there is, as a dotted name, or None.
        is_certain: Whether no other definition of the name is beside this one.
        thing: What the index found; for the index itself.
    """

    kind: Kind
    name: str
    path: str | None = None
    line: int | None = None
    evidence: str = ""
    near: str | None = None
    is_certain: bool = True
    thing: Any = None

    @property
    def exists(self) -> bool:
        """Whether the name is certainly there."""
        return self.kind not in ("missing", "undecided", "third_party")

    @property
    def is_missing(self) -> bool:
        """Whether the name is certainly not there."""
        return self.kind == "missing"

    @property
    def lacking(self) -> str:
        """The part of a missing name that is not there, or nothing."""
        # Every sentence about a missing name ends with that part in quotes.
        text = self.evidence.rpartition("'")[0].rpartition("'")[2]
        return text if text in self.name.split(".") else ""
