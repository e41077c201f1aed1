"""Words that sources list one after the other: literals, unions, constants, items of YAML."""

from __future__ import annotations

from collections import defaultdict
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

    def around(self, words: Collection[str]) -> list[Listed]:
        """Return the lists that have all of some words."""
        first, *others = (self._by_word.get(each, frozenset[int]()) for each in words)
        return [self._every[each] for each in sorted(first.intersection(*others))]

    @cached_property
    def _every(self) -> list[Listed]:
        return [each for path in self._files.sorted_paths for each in self._in_file(path)]

    @cached_property
    def _by_word(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = defaultdict(set)
        for number, each in enumerate(self._every):
            for word in each.words:
                found[word].add(number)
        return {word: frozenset(each) for word, each in found.items()}

    def _in_file(self, path: str) -> Iterator[Listed]:
        if not (is_code(path) or path.endswith(_DATA)) or is_test(path) or DOCS.search(path):
            return
        data = self._files.data(path) or b""
        if len(data) > MAX_BYTES or b"\0" in data[:8192]:
            return
        for form, word in ((_QUOTED, _IN_QUOTES), (_ROWS, _FIRST)):
            for found in form.finditer(data):
                words = frozenset(each.decode() for each in word.findall(found.group()))
                if len(words) >= _LEAST:
                    yield Listed(words, path, data.count(b"\n", 0, found.start()) + 1)
