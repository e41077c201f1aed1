"""Tables of a release that map its old names to the new ones."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from scaffold.analysis.python.literal_tables import read_literal_tables
from scaffold.deps.release import Release

# `RENAMED_ATTRIBUTES`, `removed_in_v2`.
_TABLE = re.compile(
    r"(?:RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE)|(?:renamed|removed|replaced|moved)_", re.ASCII
)
_WORDS = rb"RENAMED|REMOVED|REPLACED|MOVED|OBSOLETE|renamed_|removed_|replaced_|moved_"


@dataclass(frozen=True)
class Renamed:
    """One row: the new name, or "" where the table lists what was removed."""

    new: str
    evidence: str


class Renames:
    """The literal tables of a release that list renames and removals.

    Args:
        release: The new release.
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._rows: dict[str, Renamed] | None = None

    def of(self, name: str, owner: str) -> Renamed | None:
        """Return the row for a name, bare or with its module or class in front of it."""
        if self._rows is None:
            self._rows = self._read()
        # The fuller spelling first: a bare name may be listed for another owner.
        spellings = [f"{owner}:{name}", f"{owner}.{name}", name]
        return next((self._rows[each] for each in spellings if each in self._rows), None)

    def _read(self) -> dict[str, Renamed]:
        found: dict[str, Renamed] = {}
        for path in self._release.files.python:
            data = self._release.files.data(path) or b""
            source = self._release.source(path) if re.search(_WORDS, data) else None
            tables = read_literal_tables(source.tree) if source is not None else {}
            for name, table in tables.items():
                if _TABLE.search(name):
                    for key, new in table.entries:
                        line = getattr(new, "lineno", "")
                        found[key] = Renamed(_text(new), f"{name} in {path}:{line}".rstrip(":"))
        return found


def _text(node: ast.expr | None) -> str:
    value = node.value if isinstance(node, ast.Constant) else ""
    # A value with blanks is advice to the reader and no name.
    return value if isinstance(value, str) and value.isprintable() and " " not in value else ""
