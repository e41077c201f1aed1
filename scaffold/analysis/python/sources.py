"""Python sources as trees, each parsed once, with the imports of a module as dotted names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.scopes import bindings_of
from scaffold.analysis.python.statements import all_nodes
from scaffold.syntax import parse

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """One parsed source.

    Args:
        path: Relative to the root.
        tree: Its tree.
        text: The text it was parsed from.
    """

    path: str
    tree: ast.Module
    text: str = ""

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name refers to, dotted; a relative import begins with dots."""
        return {
            each.name: each.dotted
            for node in all_nodes(self.tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for each in bindings_of(node)
        }

    @cached_property
    def definitions(self) -> dict[int, Definition]:
        """Functions and classes by the lines of their `def` and of their decorators."""
        found: dict[int, Definition] = {}
        for node in all_nodes(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[node.lineno] = node
                for each in node.decorator_list:
                    found.setdefault(each.lineno, node)
        return found

    def dotted(self, node: ast.expr) -> str:
        """Return an expression's dotted name with imports resolved; "" where it is none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        head = self.imports.get(node.id, node.id)
        return ".".join([head, *reversed(parts)])


class Sources:
    """The sources of a repository, parsed when asked for.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._parsed: dict[str, Source | None] = {}

    def get(self, path: str) -> Source | None:
        """Return a source; None where it is missing or no Python that parses."""
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        return self._parsed[path]

    @property
    def paths(self) -> tuple[str, ...]:
        """All Python sources, sorted."""
        return self._files.python

    def text(self, path: str) -> str:
        """Return the text of a source without parsing it; "" where it cannot be read."""
        return self._files.text(path) or ""

    def _parse(self, path: str) -> Source | None:
        text = self._files.text(path)
        if text is None:
            return None
        try:
            return Source(path, parse(text), text)
        except SyntaxError:
            return None
