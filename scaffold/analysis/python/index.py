"""The Python names of a repository: what a dotted name means, what a call has to give.

``PythonIndex(list_files(root)).find("package.module.Class.method")`` answers from the text alone.
Nothing is imported; a source is parsed when a question first touches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.callables import Callables
from scaffold.analysis.python.classes import Member
from scaffold.analysis.python.data_fields import Field, find_fields
from scaffold.analysis.python.decorators import last_part
from scaffold.analysis.python.definitions import Definitions
from scaffold.analysis.python.entry import ClassEntry
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.modules import Module, Modules
from scaffold.analysis.python.resolver import Resolver
from scaffold.analysis.python.signatures import Parameter, Signature
from scaffold.analysis.python.suggestions import Nearness


class PythonIndex:
    """The Python names of a repository.

    Args:
        files: The repository's files.
        trusted: Decorators that leave parameters as they are, as `Callables` takes them.
    """

    def __init__(self, files: Files, trusted: re.Pattern[str] | None = None) -> None:
        self.modules = Modules(files)
        self._resolver = Resolver(files, self.modules)
        self._callables = Callables(self._resolver.classes, self._resolver.resolve, trusted)
        self._definitions = Definitions(files)
        self._nearness = Nearness(self._resolver, self.modules, self._definitions)
        self._found: dict[tuple[str, str], Found] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that imports start from, relative, the surest first; ``""`` is the root."""
        return self.modules.roots

    def find(self, dotted: str) -> Found:
        """Return what a dotted name means: ``package.module``, ``package.Class.method``, ...

        ``missing`` is only said where nothing can give the name while the code runs; whatever
        could (a ``__getattr__``, ``setattr``, an unknown base) makes it ``undecided``, with the
        reason as evidence. A name whose first part this repository does not have is
        ``third_party``; so is one that a module of the repository imports from there, and its
        ``path`` is that module's then.
        """
        return self._ask("", dotted)

    def find_in(self, path: str, name: str) -> Found:
        """Return what a name means inside one file: ``Class.method``, ``function``, ``CONSTANT``.

        Args:
            path: The source, relative to the root.
            name: The name, dotted or not, as code in that file would write it.
        """
        return self._ask(path, name)

    def signature(self, dotted: str) -> Signature | None:
        """Return what a call of it takes, without ``self``; None where that is not certain.

        A class answers with its ``__init__``, ``__new__`` or dataclass fields.
        """
        return self._callables.signature(self.find(dotted))

    def signature_of(self, found: Found) -> Signature | None:
        """Return what a call of something found takes, as ``signature`` does."""
        return self._callables.signature(found)

    def members(self, dotted: str) -> dict[str, Member] | None:
        """Return a class's members, those of its bases among them; None where it is no class."""
        found = self.find(dotted)
        if not found.exists or not isinstance(found.thing, ClassEntry):
            return None
        return self._resolver.classes.members(found.thing)

    def fields(self, dotted: str) -> tuple[Field, ...] | None:
        """Return a dataclass's fields, the inherited ones first; None where it has none."""
        return self.fields_of(self.find(dotted))

    def fields_of(self, found: Found) -> tuple[Field, ...] | None:
        """Return the fields of a found class, as ``fields`` does."""
        if not found.exists or not isinstance(found.thing, ClassEntry):
            return None
        return find_fields(self._resolver.classes, found.thing)

    def foreign_bases(self, found: Found) -> frozenset[str]:
        """Return the bases of a found class, inherited ones included, that are not defined here."""
        if not isinstance(found.thing, ClassEntry):
            return frozenset()
        entries = self._resolver.classes.lineage(found.thing).entries
        bases = (last_part(base) for each in entries for base in each.binding.bases)
        return frozenset(bases) - {each.binding.name for each in entries}

    def module_names(self, dotted: str) -> frozenset[str]:
        """Return the names that a module or package binds or gives on first use."""
        found = self.find(dotted)
        if not found.exists or not isinstance(found.thing, Module):
            return frozenset()
        return self._resolver.names(found.thing)

    def defined(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return the path and line of every definition of a bare name in the repository."""
        return self._definitions.places(name)

    def classes_called(self, variable: str) -> tuple[tuple[str, str], ...]:
        """Return the path and name of every class that a variable may be called after.

        ``data_loader`` and ``dataloader`` may be a ``DataLoader``.
        """
        names = self._classes_by_word.get(variable.replace("_", ""), ())
        return tuple((path, name) for name in names for path in self._definitions.paths(name))

    @cached_property
    def _classes_by_word(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._definitions.names():
            if name[:1].isupper() and not name.isupper():
                found.setdefault(name.lower().replace("_", ""), []).append(name)
        return found

    def names(self) -> Iterator[str]:
        """Yield every name that some source defines."""
        return self._definitions.names()

    def dotted_names(self, path: str) -> tuple[str, ...]:
        """Return the names under which a source can be imported, the surest first."""
        return self.modules.dotted_names(path)

    def absolute(self, path: str, dotted: str) -> str | None:
        """Return a name as a source imports it, from the top; None where that has no name.

        Args:
            path: The source.
            dotted: The name; leading dots are those of a relative import.
        """
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        names = self.dotted_names(path) if level else ()
        if not level or not names:
            return None if level else name
        parts = names[0].split(".")
        # In a package's __init__ the first dot is the package itself.
        kept = parts[: len(parts) - level + path.endswith(("/__init__.py", "/__init__.pyi"))]
        return ".".join(filter(None, [*kept, name])) if kept else None

    def _ask(self, path: str, name: str) -> Found:
        key = (path, name)
        if key not in self._found:
            resolver = self._resolver
            found = resolver.find_in(path, name) if path else resolver.find(name)
            # Only `missing` costs the scan of the whole repository that `_confirm` needs.
            self._found[key] = self._confirm(found) if found.is_missing else found
        return self._found[key]

    def _confirm(self, found: Found) -> Found:
        """Check that no code elsewhere sets a missing name, and find the nearest."""
        reason = self._nearness.why_set_elsewhere(found)
        if reason is not None:
            return found._replace(kind="undecided", evidence=reason)
        return found._replace(near=self._nearness.nearest(found))


__all__ = ["Field", "Found", "Member", "Parameter", "PythonIndex", "Signature"]
