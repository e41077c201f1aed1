"""The types that blocks of TypeScript write out, and what they take from files of here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.typescript import read_declarations
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference

_LANGUAGES = frozenset({"ts", "tsx", "typescript"})
_SCRIPTS = frozenset({*_LANGUAGES, "js", "jsx", "javascript"})
# From a file beside it, or from the root that `@/` stands for; a package is not of here.
_TAKEN = lazy_re(
    r"^import\s+(?:type\s+)?(?:\w+\s*,\s*)?\{(?P<names>[^{}]*)\}\s*from\s*[\"'](?P<path>[.@]*/[^\"']+)",
    re.MULTILINE,
)
_NAME = lazy_re(r"(?:^|,)\s*(?:type\s+)?([A-Za-z_$][\w$]*)")
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


class Taken(NamedTuple):
    """A name that a block takes from a file of TypeScript."""

    name: str
    path: str


def find_types(document: Document) -> Iterator[Reference]:
    """Yield the members of the types that blocks of TypeScript declare."""
    for fence in document.markdown.fences:
        language = next(iter(fence.info.lower().split()), "")
        for found in _TAKEN.finditer(fence.text) if language in _SCRIPTS else ():
            for name in _NAME.finditer(found["names"]):
                at = found.start("names") + name.start(1)
                line = fence.line + fence.text.count("\n", 0, at)
                column = at - fence.text.rfind("\n", 0, at)
                text = f"{name[1]} from {found['path']}"
                yield Reference("import", text, line, column, Taken(name[1], found["path"]), fence)
        if language in _LANGUAGES:
            rows = fence.text.split("\n")
            for each in read_declarations(fence.text, is_tsx=language == "tsx"):
                for name, line in each.members.items():
                    at = rows[line - 1].find(name)
                    if at >= 0 and _FIELD.match(rows[line - 1], at + len(name)):
                        data = ShownType(each.name, name, tuple(each.members))
                        text, place = f"{each.name}.{name}", (fence.line + line - 1, at + 1)
                        yield Reference("definition", text, *place, data, fence)
