"""Which classes of a repository derive from which, and what its enums hold, by their names."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_test
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.statements import all_nodes
from scaffold.syntax import parse

_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"})
_DERIVED = lazy_re(rb"^class\s+(\w+)\s*\(([^()]*)\)\s*:", re.MULTILINE)
_SUBSCRIPT = lazy_re(rb"\[[^\[\]]*\]")


class Families:
    """The classes of a repository by what they derive from.

    Args:
        files: Its files.
        python: Its names.
    """

    def __init__(self, files: Files, python: PythonIndex) -> None:
        self._files = files
        self._python = python

    @cached_property
    def children(self) -> dict[str, frozenset[str]]:
        """The classes that derive from each class without another between; tests are left out."""
        found: dict[str, set[str]] = {}
        for path in self._files.python:
            for name, bases in (
                _DERIVED.findall(self._files.data(path) or b"") if not is_test(path) else ()
            ):
                for base in _SUBSCRIPT.sub(b"", bases).split(b","):
                    last = base.strip().rpartition(b".")[2].decode()
                    found.setdefault(last, set()).add(name.decode())
        return {base: frozenset(names) for base, names in found.items()}

    def below(self, name: str) -> frozenset[str]:
        """Return every class that derives from one, however far."""
        found: set[str] = set()
        stack = [name]
        while stack:
            fresh = self.children.get(stack.pop(), frozenset()) - found
            found |= fresh
            stack += fresh
        return frozenset(found)

    def values(self, name: str) -> frozenset[str]:
        """Return the members of the one enum of a name, or nothing."""
        places = self._python.defined(name)
        if len(places) != 1:
            return frozenset()
        try:
            tree = parse(self._files.text(places[0][0]) or "")
        except SyntaxError:
            return frozenset()
        nodes = (each for each in all_nodes(tree) if isinstance(each, ast.ClassDef))
        return frozenset(*(enum_values(each) for each in nodes if each.name == name))


def enum_values(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the members of an enum with their values; nothing for another class."""
    bases = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
             for each in node.bases]  # fmt: skip
    if not _ENUMS & set(bases):
        return {}
    return {
        each.targets[0].id: each.value
        for each in node.body
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and not each.targets[0].id.startswith("_")
    }
