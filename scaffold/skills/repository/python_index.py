"""The Python names of a repository: what a dotted name means, what a call has to give.

``PythonIndex(list_files(root)).find("package.module.Class.method")`` answers from the text alone.
Nothing is imported; a source is parsed when a question first touches it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from scaffold.skills.repository import binding
from scaffold.skills.repository.binding import Problem
from scaffold.skills.repository.classes import Field, Member
from scaffold.skills.repository.files import Files
from scaffold.skills.repository.found import Found
from scaffold.skills.repository.modules import Module, Modules
from scaffold.skills.repository.resolving import Resolver
from scaffold.skills.repository.signatures import Signature


class PythonIndex:
    """Answers what dotted names mean in a repository.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.modules = Modules(files)
        self._resolver = Resolver(files, self.modules)
        self._found: dict[str, Found] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that imports start from, relative, the surest first; ``""`` is the root."""
        return self.modules.roots

    def find(self, dotted: str) -> Found:
        """Says what a dotted name means: ``package.module``, ``package.Class.method``, ...

        ``missing`` is only said where nothing can give the name while the code runs; whatever
        could (a ``__getattr__``, ``setattr``, an unknown base) makes it ``undecided``, with the
        reason as evidence. A name whose first part this repository does not have is
        ``third_party``.
        """
        if dotted not in self._found:
            self._found[dotted] = self._resolver.find(dotted)
        return self._found[dotted]

    def find_in(self, path: str, name: str) -> Found:
        """Says what a name means inside one file: ``Class.method``, ``function``, ``CONSTANT``.

        Args:
            path: The source, relative to the root.
            name: The name, dotted or not, as code in that file would write it.
        """
        return self._resolver.find_in(path, name)

    def signature(self, dotted: str) -> Signature | None:
        """Returns what a call of it takes, without ``self``; None where that is not certain.

        A class answers with its ``__init__``, ``__new__`` or dataclass fields.
        """
        return self._resolver.signature(self.find(dotted))

    def bind(self, signature: Signature, call: ast.Call) -> Problem | None:
        """Tells why a call does not fit a signature; None where it fits or may fit."""
        return binding.bind(signature, call)

    def members(self, dotted: str) -> dict[str, Member] | None:
        """Returns a class's members, those of its bases among them; None where it is no class."""
        return self._resolver.members(self.find(dotted))

    def fields(self, dotted: str) -> tuple[Field, ...] | None:
        """Returns a dataclass's fields, the inherited ones first; None where it has none."""
        return self._resolver.fields(self.find(dotted))

    def module_names(self, dotted: str) -> frozenset[str]:
        """Returns the names that a module or package offers, submodules among them."""
        return self._resolver.module_names(self.find(dotted))

    def defined(self, name: str) -> tuple[tuple[str, int], ...]:
        """Returns the path and line of every definition of a bare name in the repository."""
        return self._resolver.definitions.places(name)

    def dotted_names(self, path: str) -> tuple[str, ...]:
        """Returns the names under which a source can be imported, the surest first."""
        return tuple(self._dotted_names(path))

    def _dotted_names(self, path: str) -> Iterator[str]:
        stem = path.removesuffix("/__init__.py").removesuffix(".py").removesuffix(".pyi")
        for root in self.roots:
            if root and not stem.startswith(f"{root}/"):
                continue
            parts = stem[len(root) :].strip("/").split("/")
            if all(part.isidentifier() for part in parts):
                yield ".".join(parts)


def is_standard_library(name: str) -> bool:
    """Tells whether a top-level name belongs to Python itself."""
    return name in sys.stdlib_module_names


__all__ = ["Field", "Found", "Member", "Module", "Problem", "PythonIndex", "Signature"]
