"""What blocks of other languages than Python name: words, and types and imports of TypeScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.typescript import read_declarations
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.named import Symbol

_CODE = frozenset(
    {"c", "c++", "cc", "cpp", "cs", "csharp", "cu", "cuda", "go", "golang", "h", "hpp", "java"}
    | {"javascript", "js", "jsx", "kotlin", "kt", "lua", "php", "rb", "rs", "ruby", "rust", "scala"}
    | {"swift", "ts", "tsx", "typescript"}
)
_GO = frozenset({"go", "golang"})
_LANGUAGES = frozenset({"ts", "tsx", "typescript"})
_SCRIPTS = frozenset({*_LANGUAGES, "js", "jsx", "javascript"})
# From a file beside it, or from the root that `@/` stands for; a package is not of here.
_TAKEN = lazy_re(
    r"^import\s+(?:type\s+)?(?:\w+\s*,\s*)?\{(?P<names>[^{}]*)\}\s*from\s*[\"'](?P<path>[.@]*/[^\"']+)",
    re.MULTILINE,
)
_NAME = lazy_re(r"(?:^|,)\s*(?:type\s+)?([A-Za-z_$][\w$]*)")
_FIELD = lazy_re(r"[?!]?\s*[:(]")
# `package.Name` of Go, and any other word.
_TAKEN_OF = lazy_re(r"(?<![\w.])[a-z]\w+\.[A-Z]\w*")
_WORD = lazy_re(r"[A-Za-z_]\w*")
# Of two parts at least, and so no word of prose and nobody's by chance.
TELLING = lazy_re(
    r"_*[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"
    r"|_*(?:[A-Za-z][a-z0-9]+|[A-Z]{2,}[a-z]{2}[a-z0-9]*)(?:[A-Z][A-Za-z0-9]*)+"
)


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


def find_code(document: Document) -> Iterator[Reference]:
    """Yield the words of code, what it takes from elsewhere, and the members of its types."""
    for fence in document.markdown.fences:
        language = next(iter(fence.info.lower().split()), "")
        if language in _CODE:
            yield from _words(fence, is_go=language in _GO)
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


def _words(fence: Block, *, is_go: bool) -> Iterator[Reference]:
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        for found in _TAKEN_OF.finditer(row.partition("//")[0]) if is_go else ():
            data = Symbol(found.group())
            yield Reference("name", found.group(), number, found.start() + 1, data, fence)
        for found in _WORD.finditer(row):
            if TELLING.fullmatch(found.group()):
                place = number, found.start() + 1
                yield Reference("word", found.group(), *place, found.group(), fence)
