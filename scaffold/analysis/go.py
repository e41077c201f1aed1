"""The packages of Go sources, and what else these call by a package's name."""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

_PACKAGE = lazy_re(r"^package\s+\w+", re.MULTILINE)
_IMPORTS = lazy_re(r"^import\s*(?:\((?P<many>.*?)^\s*\)|(?P<one>[^\n]+))", re.MULTILINE | re.DOTALL)
_IMPORT = lazy_re(r"(?:(?P<alias>[\w.]+)[ \t]+)?\"(?P<path>[^\"\s]+)\"")
_NO_CODE = lazy_re(r"\"(?:\\.|[^\"\\\n])*\"|`[^`]*`|//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = lazy_re(r"[/.]v\d+$")


class Import(NamedTuple):
    """A package that a text imports, under an alias or, where that is empty, its own name."""

    alias: str
    path: str

    def may_be(self, name: str) -> bool:
        """Return whether code can call the package so; `go-yaml/v3` is mostly called `yaml`."""
        if self.alias:
            return self.alias == name
        last = _VERSION.sub("", self.path).rpartition("/")[2]
        return name in re.split(r"[.-]", last)

    def is_of(self, home: str) -> bool:
        """Return whether it can be the package in a folder of the repository."""
        return f"/{self.path}".endswith(f"/{home}")


def read_imports(text: str) -> set[Import]:
    """Return what a Go text imports."""
    declared = (each["many"] or each["one"] for each in _IMPORTS.finditer(text))
    return {
        Import(each["alias"] or "", each["path"])
        for every in declared
        for each in _IMPORT.finditer(every)
    }


def binds(text: str, name: str) -> bool:
    """Return whether a Go text has a name without a member behind it, as no package is written."""
    if name not in text:
        return False
    code = _PACKAGE.sub("", _NO_CODE.sub(" ", text))
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", code) is not None


class Go:
    """The Go sources of a repository.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.binds = cache(self._binds)
        """Whether any source has a variable, a field or a parameter of a name."""

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each source."""
        paths = (each for each in self._files.sorted_paths if each.endswith(".go"))
        return {each: text for each in paths if (text := self._files.text(each))}

    @cached_property
    def _imports(self) -> frozenset[Import]:
        return frozenset(each for text in self.texts.values() for each in read_imports(text))

    def packages(self, name: str) -> dict[str, list[str]]:
        """Return each folder of a package by the name of the folder, with its sources."""
        found: dict[str, list[str]] = {}
        for home in self._files.folders_by_name.get(name, ()):
            below = self._files.below(home)
            sources = [
                each for each in below if each.endswith(".go") and each.rpartition("/")[0] == home
            ]
            if sources:
                found[home] = sources
        return found

    def imports_other(self, name: str, home: str) -> bool:
        """Return whether a source imports a package by a name that is not that of a folder."""
        return any(each.may_be(name) and not each.is_of(home) for each in self._imports)

    def _binds(self, name: str) -> bool:
        return any(binds(text, name) for text in self.texts.values())
