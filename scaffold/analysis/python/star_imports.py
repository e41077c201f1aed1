"""``from module import *``: which modules it names, and whether they may give a name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.modules import Module, Modules
from scaffold.analysis.python.symbols import DYNAMIC_WORDS, ModuleTable

# No `]`, `)`, `*` or `+` inside: an __all__ that is put together from parts does not match.
_LITERAL_EXPORTS = lazy_re(rb"^__all__\b[^=\n]*=\s*[\[(]([^*\])+]*)[\])]\s*$", re.MULTILINE)
_QUOTED = lazy_re(rb"[\"'](\w+)[\"']")
_WAYS = (b"import *", b"__getattr__", b"import (*)", *DYNAMIC_WORDS)
_SHORT = 20_000
"""Sources of fewer bytes are parsed rather than searched again for every name."""


class StarImports:
    """The modules that an ``import *`` reads, without parsing those that give nothing.

    Args:
        files: The repository's files.
        modules: Where its modules lie.
        tables: The tables of the sources parsed so far, by path.
    """

    def __init__(self, files: Files, modules: Modules, tables: Mapping[str, ModuleTable]) -> None:
        self._files = files
        self._modules = modules
        self._tables = tables
        self._sources: dict[int, list[tuple[str, bool, list[Module]]]] = {}
        self._exports: dict[str, frozenset[str] | None] = {}

    def of(self, module: Module, table: ModuleTable) -> list[tuple[str, bool, list[Module]]]:
        """Return each ``import *``: its text, whether it is for type checkers, its modules."""
        key = id(table)  # the tables stay
        if key not in self._sources:
            self._sources[key] = [
                (target or ".", for_types, self._modules.imported(module, level, target))
                for level, target, for_types in reversed(table.scope.stars)
            ]
        return self._sources[key]

    def may_give(self, module: Module, name: str) -> bool:
        """Return whether ``import *`` may take a name from a module, before that is parsed."""
        path = module.path
        # A parsed module is answered from its table at no further cost; a stub may add names.
        if path is None or path in self._tables or module.stub is not None:
            return True
        if path not in self._exports:
            self._exports[path] = self._literal_exports(path)
        exports = self._exports[path]
        if exports is not None:
            return name in exports
        if self._modules.child(module, name) is not None:
            return True  # a submodule becomes a name once anything imports it
        source = self._files.data(path)
        if source is None or len(source) < _SHORT:
            return True
        # A name that is nowhere in the bytes can only come by a star, a hook or generated code.
        return name.encode() in source or any(word in source for word in _WAYS)

    def _literal_exports(self, path: str) -> frozenset[str] | None:
        """Return a source's ``__all__`` where it is one literal list, without parsing the rest."""
        source = self._files.data(path) or b""
        found = _LITERAL_EXPORTS.findall(source)
        # A second mention may change the list.
        if len(found) != 1 or source.count(b"__all__") != 1:
            return None
        return frozenset(name.decode() for name in _QUOTED.findall(found[0]))
