"""Names of a package in files that are no Python: entry points, targets of configurations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scaffold.analysis.files.files import Files
from scaffold.deps.use import Use

_SUFFIXES = (".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".jsonc")
_FILES = frozenset({"py", "toml", "cfg", "txt", "json", "yaml", "yml", "md", "rst", "com", "org"})
_LOCKS = re.compile(
    r"\.lock$|(^|/)(package-lock|poetry|uv|pdm|Pipfile|conda-lock)[^/]*\.(json|ya?ml)$"
)
_LONGEST_LINE = 2_000


def text_uses(files: Files, imports: Iterable[str]) -> list[Use]:
    """Return the places where a configuration names something of the package."""
    names = "|".join(sorted(re.escape(each) for each in imports))
    pattern = re.compile(
        rf"(?:^|[\s\"'=:,\[(])((?:{names})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_][\w.]*)?"
        rf"|(?:{names}):[A-Za-z_][\w.]*)(?=$|[\s\"',\])#])"
    )
    found: list[Use] = []
    for path in sorted(files.paths):
        if path.endswith(_SUFFIXES) and not _LOCKS.search(path):
            found += _in_file(path, files.text(path) or "", pattern)
    return found


def _in_file(path: str, text: str, pattern: re.Pattern[str]) -> Iterator[Use]:
    for number, row in enumerate(text.splitlines(), 1):
        # Headers of tables name tools, and very long lines are data.
        if len(row) > _LONGEST_LINE or row.lstrip().startswith(("#", "[")):
            continue
        for each in pattern.finditer(row):
            parts = tuple(each[1].replace(":", ".").split("."))
            # "package.py" or "package.com" is a file or a host, not a dotted name.
            if parts[-1] not in _FILES:
                yield Use("string", parts, path, number, row.strip()[:110])
