"""Words that sources list one after the other: literals, unions, constants, items of YAML."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_code, is_test
from scaffold.analysis.files.words import DOCS, MAX_BYTES
from scaffold.analysis.lazy_re import lazy_re

_LEAST = 3
# JSON holds what programs write and read, and seldom what there is.
_DATA = (".yml", ".yaml", ".toml")
_COMMENT = rb"(?:(?:#|//)[^\n]*\n\s*)*"
# `"a", "b", "c"`, `'a' | 'b' | 'c'`.
_QUOTED = lazy_re(rb"(?:[\"'][\w./-]{2,60}[\"'][\s,|]*" + _COMMENT + rb"[\s|]*){3,}")
_IN_QUOTES = lazy_re(rb"[\"']([\w./-]*\w[\w./-]*)[\"']")
# A word a line: `- a` of YAML, `name` of a block of constants; what has a value is a field.
_ROW = (
    rb"[ \t]*(?:- )?[\"']?[A-Za-z_][\w./-]+[\"']?(?:[ \t]+\w+[ \t]+=[ \t]*iota)?,?[ \t]*"
    rb"(?:(?:#|//)[^\n]*)?\n"
)
_ROWS = lazy_re(rb"(?:(?<=\n)(?:[ \t]*(?:#|//)[^\n]*\n)*" + _ROW + rb"){3,}")
_FIRST = lazy_re(rb"(?m)^[ \t]*(?:- )?[\"']?([\w./-]+)")


class Listed(NamedTuple):
    """Words that a source lists.

    Args:
        words: The words.
        path: The source.
        line: Where the list begins, from 1.
    """

    words: frozenset[str]
    path: str
    line: int


class Lists:
    """The lists of a repository's sources.

    Args:
        files: Its files; tests and what documents are built from are left out.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, tuple[Listed, ...]] = {}

    def around(self, words: Collection[str]) -> list[Listed]:
        """Return the lists that have all of some words."""
        # The longest is the rarest, and most sources lack it.
        keys = sorted((each.encode() for each in words), key=len, reverse=True)
        return [
            each
            for path in self._sources
            if all(key in (self._files.data(path) or b"") for key in keys)
            for each in self._in_file(path)
            if each.words.issuperset(words)
        ]

    @cached_property
    def _sources(self) -> list[str]:
        return [
            path
            for path in self._files.sorted_paths
            if (is_code(path) or path.endswith(_DATA)) and not is_test(path)
            if not DOCS.search(path) and len(self._files.data(path) or b"") <= MAX_BYTES
        ]

    def _in_file(self, path: str) -> tuple[Listed, ...]:
        if path not in self._known:
            self._known[path] = tuple(_lists(path, self._files.data(path) or b""))
        return self._known[path]


def _lists(path: str, data: bytes) -> Iterator[Listed]:
    for form, word in ((_QUOTED, _IN_QUOTES), (_ROWS, _FIRST)):
        for found in form.finditer(data) if b"\0" not in data[:8192] else ():
            words = frozenset(
                each.decode("utf-8", "replace") for each in word.findall(found.group())
            )
            if len(words) >= _LEAST:
                yield Listed(words, path, data.count(b"\n", 0, found.start()) + 1)
