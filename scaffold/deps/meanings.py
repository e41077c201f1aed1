"""What famous releases change without a word in their text, and the lines that it may concern."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.version import Version

from scaffold.analysis.files.files import Files
from scaffold.deps.use import Use

_MEANINGS = Path(__file__).with_name("meanings.toml")


def meanings(
    package: str, old: str, new: str, files: Files, uses: Iterable[Use]
) -> list[dict[str, Any]]:
    """Return what releases after the old one, up to the new one, change; each with its sites."""
    told = tomllib.loads(_MEANINGS.read_text(encoding="utf-8")).get(package, [])
    known = list(uses)
    found: list[dict[str, Any]] = []
    for each in told:
        if Version(old) < Version(each["since"]) <= Version(new):
            row = {key: each[key] for key in ("since", "says", "source")}
            found.append({**row, "sites": _sites(each, files, known)})
    return found


def _sites(told: dict[str, str], files: Files, uses: list[Use]) -> list[dict[str, Any]]:
    """Return the lines with the pattern of a meaning; what they mean is for a person to say."""
    if "pattern" not in told:
        return []
    pattern = re.compile(told["pattern"], re.MULTILINE)
    if told.get("within") == "subclasses":
        spans: dict[str, set[int]] = {}
        for use in uses:
            if use.kind == "subclass" and isinstance(use.node, ast.ClassDef):
                end = use.node.end_lineno or use.node.lineno
                spans.setdefault(use.path, set()).update(range(use.node.lineno, end + 1))
    else:
        # What a name without a type holds does not show, so every source counts.
        spans = {path: set() for path in files.python}
    found: dict[tuple[str, int], None] = {}
    for path in sorted(spans):
        text = files.text(path) or ""
        for each in pattern.finditer(text):
            begin = each.end() - len(each[0].lstrip())
            found[path, text.count("\n", 0, begin) + 1] = None
    rows = [each for each in found if not spans[each[0]] or each[1] in spans[each[0]]]
    return [{"file": path, "line": line} for path, line in rows]
