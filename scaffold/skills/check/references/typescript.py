"""The types that blocks of TypeScript write out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.typescript import read_declarations
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference

_LANGUAGES = frozenset({"ts", "tsx", "typescript"})
_FIELD = lazy_re(r"[?!]?\s*[:(]")


class ShownType(NamedTuple):
    """A member of a type that a block writes out.

    Args:
        owner: The type.
        name: The member.
        every: All members that the block has of it.
    """

    owner: str
    name: str
    every: tuple[str, ...]


def find_types(document: Document) -> Iterator[Reference]:
    """Yield the members of the types that blocks of TypeScript declare."""
    for fence in document.markdown.fences:
        if fence.info.split()[:1] and fence.info.split()[0].lower() in _LANGUAGES:
            rows = fence.text.split("\n")
            is_tsx = fence.info.split()[0].lower() == "tsx"
            for each in read_declarations(fence.text, is_tsx=is_tsx):
                for name, line in each.members.items():
                    at = rows[line - 1].find(name)
                    if at >= 0 and _FIELD.match(rows[line - 1], at + len(name)):
                        data = ShownType(each.name, name, tuple(each.members))
                        text, place = f"{each.name}.{name}", (fence.line + line - 1, at + 1)
                        yield Reference("definition", text, *place, data, fence)
