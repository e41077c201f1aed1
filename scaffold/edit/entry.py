"""A line of a registry: what every editor adds, finds and takes away."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """One line of a registry.

    Args:
        file: The registry's file, relative to the root.
        table: What to look for in it: a variable, a function, a callee, a heading.
        shape: How it is edited; one of `scaffold.edit.shapes.SHAPES`.
        key: What the line is known by.
        value: Its value; empty for a shape that has keys only.
        code: Which of "key" and "value" are source text rather than the content of a string.
        near: The key of an entry beside which a new one goes, where no order decides. It is no
            part of what the entry is.
    """

    file: str
    table: str
    shape: str
    key: str
    value: str
    code: tuple[str, ...] = ()
    near: str = field(default="", compare=False)
