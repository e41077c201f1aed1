"""Python sources as trees, each parsed once, with the imports of a module as dotted names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from scaffold.skills.repository.files import Files

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """Is one parsed source.

    Args:
        path: Relative to the root.
        tree: Its tree.
        text: The text it was parsed from.
    """

    path: str
    tree: ast.Module
    text: str = ""

    def mentions(self, word: str) -> bool:
        """Tells whether a word stands anywhere in its text."""
        return word in self.text

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name stands for, dotted; a relative import begins with dots."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    top = each.name.partition(".")[0]
                    found[each.asname or top] = each.name if each.asname else top
            elif isinstance(node, ast.ImportFrom):
                lead = "." * node.level + (node.module or "")
                for each in node.names:
                    dot = "" if lead.endswith(".") else "."
                    found[each.asname or each.name] = f"{lead}{dot}{each.name}"
        return found

    @cached_property
    def definitions(self) -> dict[int, Definition]:
        """Functions and classes by the lines of their `def` and of their decorators."""
        found: dict[int, Definition] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[node.lineno] = node
                for each in node.decorator_list:
                    found.setdefault(each.lineno, node)
        return found

    def dotted(self, node: ast.expr) -> str:
        """Returns an expression's dotted name with imports resolved; "" where it is none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        head = self.imports.get(node.id, node.id)
        return ".".join([head, *reversed(parts)])


class Sources:
    """Parses the sources of a repository when they are asked for.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._parsed: dict[str, Source | None] = {}

    def get(self, path: str) -> Source | None:
        """Returns a source; None where it is missing or no Python that parses."""
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        return self._parsed[path]

    def _parse(self, path: str) -> Source | None:
        text = self._files.text(path)
        if text is None:
            return None
        try:
            return Source(path, ast.parse(text), text)
        except (SyntaxError, ValueError, RecursionError):
            return None
