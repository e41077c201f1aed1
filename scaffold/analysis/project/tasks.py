"""The tasks that a repository defines: targets of make, scripts of npm, recipes of just."""

from __future__ import annotations

import re
from typing import NamedTuple

from scaffold.analysis.files.data_files import load_data
from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.tool_table import inner_table

MAKEFILES = ("GNUmakefile", "Makefile", "makefile")
JUSTFILES = ("justfile", "Justfile", ".justfile")

# `build test: deps` and `all:: deps`; neither `X := 1` nor `X = a:b`.
_TARGET = lazy_re(r"^(?P<names>[^\s#:=][^#:=]*?)\s*::?(?!=)(?P<rest>[^=]*)$")
_OPENING = lazy_re(r"^\s*(?:-?include|sinclude|define|\$\((?:eval|foreach|call))", re.MULTILINE)
# `@build target="x":`, and not the assignment `x := 1`.
_RECIPE = lazy_re(r"^@?(?P<name>[A-Za-z_][\w-]*)(?:[ \t]+[^:\n]*)?:(?!=)", re.MULTILINE)
_ALIAS = lazy_re(r"^alias\s+(?P<name>[\w-]+)\s*:=", re.MULTILINE)


class Tasks(NamedTuple):
    """The tasks that one file defines.

    Args:
        path: The file.
        names: The names of its tasks.
        patterns: The pattern rules among them, as make writes them: `test-%`.
        why_open: Why it may have more, or "".
    """

    path: str
    names: frozenset[str]
    patterns: tuple[str, ...] = ()
    why_open: str = ""

    def has(self, name: str) -> bool:
        """Return whether it has a task of this name."""
        return name in self.names or any(_fits(name, each) for each in self.patterns)


def make_tasks(path: str, files: Files) -> Tasks | None:
    """Return the targets of a Makefile."""
    text = files.text(path)
    if text is None:
        return None
    # A backslash continues the line: a list of targets may go over several.
    joined = re.sub(r"\\\n", " ", text)
    names: set[str] = set()
    why = "it takes in other files or makes rules" if _OPENING.search(joined) else ""
    for line in joined.splitlines():
        found = None if line.startswith("\t") else _TARGET.match(line)
        if found is None:
            continue
        words = found["names"].split()
        if words and words[0] == ".PHONY":
            # `.PHONY: a b` names targets that may have no rule of their own here.
            words = found["rest"].split()
        if any("$" in word for word in words):
            why = why or "it computes the names of targets"
        names.update(word for word in words if not word.startswith("."))
    patterns = tuple(sorted(name for name in names if "%" in name))
    return Tasks(path, frozenset(name for name in names if "%" not in name), patterns, why)


def npm_tasks(path: str, files: Files) -> Tasks | None:
    """Return the scripts of a package.json."""
    data = load_data(path, files)
    return Tasks(path, frozenset(inner_table(data, "scripts"))) if isinstance(data, dict) else None


def just_tasks(path: str, files: Files) -> Tasks | None:
    """Return the recipes of a justfile."""
    text = files.text(path)
    if text is None:
        return None
    names = {found["name"] for found in _RECIPE.finditer(text)}
    names |= {found["name"] for found in _ALIAS.finditer(text)}
    opens = re.search(r"^(?:import|mod|set\s+fallback|!include)\b", text, re.MULTILINE)
    return Tasks(path, frozenset(names), (), "it takes in other files" if opens else "")


def _fits(name: str, pattern: str) -> bool:
    lead, _, tail = pattern.partition("%")
    return len(name) >= len(pattern) and name.startswith(lead) and name.endswith(tail)
