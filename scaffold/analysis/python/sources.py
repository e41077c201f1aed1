"""Python sources as trees, each parsed once, with the imports of a module as dotted names."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.modules import Modules
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

    def mentions(self, word: str) -> bool:
        """Return whether a word is anywhere in its text."""
        return word in self.text

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name stands for, dotted; a relative import begins with dots."""
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
        modules: Its modules.
    """

    def __init__(self, files: Files, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._parsed: dict[str, Source | None] = {}

    def get(self, path: str) -> Source | None:
        """Return a source; None where it is missing or no Python that parses."""
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        return self._parsed[path]

    def origin(self, name: str, source: Source) -> Source | None:
        """Return the module that an imported name is taken from, where it is a plain one.

        It answers without following names, and so cheaply: None where the module is not of this
        repository.
        """
        dotted = source.imports.get(name)
        if dotted is None:
            return None
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [each for each in dotted.strip(".").split(".") if each]
        if level:
            folder = source.path.rpartition("/")[0]
            for _ in range(level - 1):
                folder = folder.rpartition("/")[0]
            # The last part may be a submodule or a name inside the module: the longer path first.
            stems = ["/".join([folder, *parts[:count]]) for count in (len(parts), len(parts) - 1)]
            return self._first([stem.strip("/") for stem in stems])
        found: list[str] = []
        for module in self._modules.top(parts[0]):
            base = module.folder or (module.path or "").removesuffix(".py")
            found += ["/".join([base, *parts[1:count]]) for count in (len(parts), len(parts) - 1)]
        return self._first(found)

    def _first(self, stems: list[str]) -> Source | None:
        for stem in stems:
            for path in (f"{stem}.py", f"{stem}/__init__.py"):
                if path in self._files.paths:
                    return self.get(path)
        return None

    def _parse(self, path: str) -> Source | None:
        text = self._files.text(path)
        if text is None:
            return None
        try:
            return Source(path, parse(text), text)
        except SyntaxError:
            return None
