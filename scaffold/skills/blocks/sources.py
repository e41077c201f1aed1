"""Python as text: where a dotted name stands, and what stands there; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaffold.skills.repository.files import Files

MAX_HOPS = 8
"""How many re-exports are followed before a chain counts as a circle."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class BlockError(ValueError):
    """A block asks for what is not there, or in the wrong way; the message says which."""


@dataclass
class Module:
    """Is one parsed source file.

    Args:
        name: Its dotted name.
        path: The file, relative to the root.
        text: What stands in it.
        tree: The same, parsed.
    """

    name: str
    path: str
    text: str
    tree: ast.Module

    @cached_property
    def rows(self) -> list[str]:
        """The lines of the file."""
        return self.text.split("\n")

    @cached_property
    def names(self) -> dict[str, ast.stmt]:
        """The statement that binds each name at module level."""
        return _bindings(self.tree.body)

    def imported(self, name: str) -> str | None:
        """Returns the dotted name behind an imported one; None for what is defined here."""
        found = self.names.get(name)
        if isinstance(found, ast.Import):
            each = next(each for each in found.names if _alias(each) == name)
            return each.name if each.asname else each.name.partition(".")[0]
        if isinstance(found, ast.ImportFrom):
            each = next(each for each in found.names if (each.asname or each.name) == name)
            return f"{self._package_of(found)}.{each.name}".strip(".")
        return None if found is not None else self._lazy().get(name)

    def _package_of(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        above = node.level - self.path.endswith("/__init__.py")
        return ".".join([*parts[: len(parts) - above], *filter(None, [node.module])])

    def _lazy(self) -> dict[str, str]:
        """Returns what literal tables of a module's ``__getattr__`` offer."""
        found: dict[str, str] = {}
        for each in self.names.values():
            if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(each.value, ast.Dict):
                for key, value in zip(each.value.keys, each.value.values, strict=True):
                    if isinstance(key, ast.Constant) and (target := _lazy_target(key, value)):
                        found.setdefault(str(key.value), target)
        return found if "__getattr__" in self.names else {}


class Sources:
    """Is the Python of a repository; what nobody asks for is never read.

    Args:
        files: The repository.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self._modules: dict[str, Module] = {}

    def module(self, name: str) -> Module | None:
        """Returns a module by its dotted name; None where the repository has none.

        Raises:
            BlockError: Its file cannot be read or does not parse.
        """
        if name not in self._modules:
            path = self._path_of(name)
            if path is None:
                return None
            self._modules[name] = self._parsed(name, path)
        return self._modules[name]

    def find(self, dotted: str) -> tuple[Module, tuple[str, ...]]:
        """Returns the module that a name stands in, and the name inside it, re-exports followed.

        Raises:
            BlockError: It is not there.
        """
        for _ in range(MAX_HOPS):
            module, inside = self._split(dotted.replace(":", "."))
            further = module.imported(inside[0]) if inside else None
            if further is None:
                return module, inside
            dotted = ".".join([further, *inside[1:]])
        raise BlockError(f"{dotted}: its re-exports lead in a circle")

    def node(self, dotted: str) -> tuple[Module, ast.stmt | ast.Module]:
        """Returns the statement that a dotted name stands for, with its module.

        Raises:
            BlockError: It is not there.
        """
        module, inside = self.find(dotted)
        node: ast.stmt | ast.Module = module.tree
        for depth, name in enumerate(inside):
            body: list[ast.stmt] = getattr(node, "body", [])
            bound = _bindings(body)
            if name not in bound:
                base = self._inherited(module, node, inside[depth:])
                if base is not None:
                    return base
                where = ".".join([module.name, *inside[:depth]])
                raise BlockError(f"{where} ({module.path}) has no {name!r}")
            node = bound[name]
        return module, node

    def _inherited(
        self, module: Module, node: ast.stmt | ast.Module, rest: tuple[str, ...]
    ) -> tuple[Module, ast.stmt | ast.Module] | None:
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            try:
                return self.node(".".join([module.name, ast.unparse(base), *rest]))
            except BlockError:
                continue
        return None

    def _split(self, dotted: str) -> tuple[Module, tuple[str, ...]]:
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:length]))
            if module is not None:
                return module, tuple(parts[length:])
        raise BlockError(f"no module of this repository holds {dotted!r}")

    def _path_of(self, name: str) -> str | None:
        tail = name.replace(".", "/")
        found = [path for root in ("", "src/") for path in _candidates(root + tail)]
        known = [path for path in found if path in self.files.paths]
        return known[0] if known else self._in_a_package_root(tail)

    def _in_a_package_root(self, tail: str) -> str | None:
        """Looks in the packages of a monorepo: a folder with a pyproject.toml, or its src."""
        roots = [path.rpartition("/")[0] for path in self.files.by_name.get("pyproject.toml", [])]
        found = [
            path
            for root in roots
            if root
            for inner in (f"{root}/", f"{root}/src/")
            for path in _candidates(inner + tail)
            if path in self.files.paths
        ]
        return found[0] if found else None

    def _parsed(self, name: str, path: str) -> Module:
        text = (self.files.text(path) or "").replace("\r\n", "\n")
        try:
            return Module(name, path, text, ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BlockError(f"{path} does not parse: {error}") from error


def first_sentence(node: ast.AST) -> str:
    """Returns the first line of a docstring, or ""."""
    if not isinstance(node, Definition | ast.Module):
        return ""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _bindings(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Returns what binds each name: the last definition, which overloads precede, or the first."""
    found: dict[str, ast.stmt] = {}
    for each in _flat(body):
        for name in _bound(each):
            if isinstance(each, Definition):
                found[name] = each
            found.setdefault(name, each)
    return found


def _candidates(tail: str) -> tuple[str, str]:
    return f"{tail}.py", f"{tail}/__init__.py"


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements, those under ``if`` and ``try`` too: one branch of them is taken."""
    for each in body:
        yield each
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(each, ast.If | ast.Try):
                yield from _flat(getattr(each, inner, []))
        for handler in each.handlers if isinstance(each, ast.Try) else []:
            yield from _flat(handler.body)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.Import):
        return [_alias(each) for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [each.asname or each.name for each in node.names]
    targets: list[Any] = getattr(node, "targets", None) or [getattr(node, "target", None)]
    return [each.id for each in targets if isinstance(each, ast.Name)]


def _alias(each: ast.alias) -> str:
    return each.asname or each.name.partition(".")[0]


def _lazy_target(key: ast.Constant, value: ast.expr) -> str | None:
    """Returns what a row of a lazy table leads to: a module, ``module:attr`` or a pair of both."""
    if isinstance(value, ast.Tuple):
        parts = [each.value for each in value.elts if isinstance(each, ast.Constant)]
        return ".".join(map(str, parts)) if len(parts) == len(value.elts) == 2 else None
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return None
    target = value.value.replace(":", ".")
    return target if ":" in value.value else f"{target}.{key.value}"
