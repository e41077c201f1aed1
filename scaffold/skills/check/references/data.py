"""The dotted names and the paths that are values in fenced JSON, YAML, TOML and INI."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.named import Symbol

LANGUAGES = frozenset({"json", "yaml", "yml", "toml", "ini", "cfg"})
_PATH = lazy_re(
    r"(?:[:=]|^\s*-)\s*[\"']?(?P<path>[\w.-]+(?:/[\w.-]+)+\.(?:py|md|ya?ml|toml|json|sh))[\"']?\s*(?:#|,|$)"
)
# `_target_: package.module.Class`, `"package.module:function"`: of three parts at least.
_VALUE = lazy_re(
    r"(?:[:=,\[]|^\s*-)\s*[\"']?(?P<name>[a-z_]\w*(?:\.[a-z_]\w*)+[.:][A-Za-z_]\w*)[\"']?\s*(?:[,\]#]|$)"
)


def find_data(document: Document) -> Iterator[Reference]:
    """Yield what the blocks of data have as values."""
    for fence in document.markdown.fences:
        if fence.info.lower().partition(" ")[0] not in LANGUAGES:
            continue
        for number, row in enumerate(fence.text.split("\n"), fence.line):
            for found in _VALUE.finditer(row):
                name = Symbol(found["name"].replace(":", "."))
                column = found.start("name") + 1
                yield Reference("value", found["name"], number, column, name, fence)
            if found := _PATH.search(row):
                column = found.start("path") + 1
                yield Reference("path", found["path"], number, column, found["path"], fence)
