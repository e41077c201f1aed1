"""Python as text: what stands where a dotted name is defined; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scaffold.analysis.python.index import PythonIndex
from scaffold.syntax import parse

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files
    from scaffold.analysis.python.lookup_result import Found

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class BlockError(ValueError):
    """A block asks for what is not there, or in the wrong way; the message says which."""


@dataclass
class Module:
    """One parsed source file."""

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def rows(self) -> list[str]:
        """The lines of the file."""
        return self.text.split("\n")

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the definition or assignment that begins at a line."""
        found = [each for each in _bindings(self.tree) if each.lineno == line]
        return found[0] if found else None


class Sources:
    """The Python of a repository; what nobody asks for is never parsed."""

    def __init__(self, files: Files) -> None:
        # Brings thirty modules: most packs have no block that asks it.
        self.files = files
        self._index = PythonIndex(files)
        self._modules: dict[str, Module] = {}

    def node(self, dotted: str) -> tuple[Module, ast.stmt | ast.Module]:
        """Return the statement that a dotted name stands for, with its module.

        Args:
            dotted: The name; a colon may stand before the last part.

        Raises:
            BlockError: It is not there, or only running the code would tell.
        """
        return self._defined(dotted, self._index.find(dotted.replace(":", ".")))

    def node_in(self, module: Module, name: str) -> tuple[Module, ast.stmt | ast.Module]:
        """Return the same for a name as a module's own code uses it."""
        return self._defined(name, self._index.find_in(module.path, name))

    def _defined(self, name: str, found: Found) -> tuple[Module, ast.stmt | ast.Module]:
        if not found.exists or found.path is None:
            near = f"; did you mean {found.near!r}?" if found.near else ""
            raise BlockError(f"{name}: {found.evidence}{near}")
        module = self._parsed(found.path)
        if found.kind == "module":
            return module, module.tree
        node = module.statement_at(found.line or 0)
        if node is None:
            raise BlockError(f"{name} is not a definition: {found.evidence}")
        return module, node

    def _parsed(self, path: str) -> Module:
        if path not in self._modules:
            text = (self.files.text(path) or "").replace("\r\n", "\n")
            try:
                self._modules[path] = Module(path, text, parse(text))
            except SyntaxError as error:
                raise BlockError(f"{path} does not parse: {error}") from error
        return self._modules[path]


def first_sentence(node: ast.AST) -> str:
    """Return the first line of a docstring, or ""."""
    if not isinstance(node, Definition | ast.Module):
        return ""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _bindings(tree: ast.Module) -> Iterator[ast.stmt]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            yield node
