"""Every definition of a repository by its bare name, found by pattern and not by parsing."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

_PATTERNS = (
    lazy_re(rb"class (\w+)"),
    lazy_re(rb"def (\w+)"),
    lazy_re(rb"\n([A-Za-z_]\w*)[ \t]*[:=]"),
)
"""Three patterns with a literal beginning: five times as fast as one with alternatives."""

# `async def f`, `class C` anywhere, and `NAME =` or `NAME:` at the margin.
_DEFINITION = lazy_re(
    rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+([A-Za-z_]\w*)|^([A-Za-z_]\w*)[ \t]*[:=]",
    re.MULTILINE,
)
# `config.depth = 3` or `config.depth: int = 3`; `setattr(a.config, ...)`.
_SET = lazy_re(rb"\.(\w+)(?:: [^=\n]+)? = ")
_SET_BY_NAME = lazy_re(rb"setattr\(\s*([\w.]+)\s*,")
# The four bytes before the dot: "self" and " cls" are receivers.
_OWN = (b"self", b" cls", b"\tcls", b"(cls")
# The word in front of the dot, in the text up to it.
_OWNER = lazy_re(rb"([A-Za-z_]\w*)\Z")


class Definitions:
    """The places of all definitions in the Python sources; built at the first question.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._is_built = False
        self._index: dict[bytes, array[int]] = {}
        self._set_on: dict[bytes, set[bytes]] = {}
        self._set_by_name: set[bytes] = set()
        self._places: dict[str, tuple[tuple[str, int], ...]] = {}

    def paths(self, name: str) -> tuple[str, ...]:
        """Return the files that define a name, sorted."""
        self._build()
        found = self._index.get(name.encode(), ())
        return tuple(self._files.python[each] for each in found)

    def places(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return the path and line of each definition of a name."""
        if name not in self._places:
            places = (place for path in self.paths(name) for place in self._lines(path, name))
            self._places[name] = tuple(places)
        return self._places[name]

    def names(self) -> Iterator[str]:
        """Yield every defined name."""
        self._build()
        return (name.decode() for name in self._index)

    def set_on(self, name: str) -> frozenset[str]:
        """Return the names of the objects, other than ``self``, on which code sets an attribute.

        ``config.depth = 3`` counts for ``depth`` as ``config``.
        """
        self._build()
        return frozenset(each.decode() for each in self._set_on.get(name.encode(), ()))

    def is_set_by_name(self, owner: str) -> bool:
        """Return whether code somewhere does ``setattr(owner, ...)``."""
        self._build()
        return owner.encode() in self._set_by_name

    def _build(self) -> None:
        """Scan every source once."""
        if self._is_built:
            return
        self._is_built = True
        for number, path in enumerate(self._files.python):
            # The third pattern begins at a line break, which the first line would lack.
            source = b"\n" + (self._files.data(path) or b"")
            for name in {name for each in _PATTERNS for name in each.findall(source)}:
                self._index.setdefault(name, array("I")).append(number)
            for owner in _SET_BY_NAME.findall(source):
                # setattr(a.config, ...) concerns objects called `config`, whatever holds them.
                self._set_by_name.add(owner.rpartition(b".")[2])
            for match in _SET.finditer(source):
                start = match.start()
                if source[start - 4 : start] in _OWN:
                    continue
                # \Z matches at `start`, the end of the span; 60 bytes bound the cost.
                owner = _OWNER.search(source, max(0, start - 60), start)
                if owner is not None:
                    self._set_on.setdefault(match[1], set()).add(owner[1])

    def _lines(self, path: str, name: str) -> Iterator[tuple[str, int]]:
        source = self._files.data(path) or b""
        wanted = name.encode()
        # Most of a source is about other names: the pattern is tried only near this one.
        at = source.find(wanted)
        while at >= 0:
            start = source.rfind(b"\n", 0, at) + 1
            match = _DEFINITION.match(source, start)
            if match is not None and (match[1] or match[2]) == wanted:
                yield path, source.count(b"\n", 0, match.end(match.lastindex or 0)) + 1
            end = source.find(b"\n", at)
            at = source.find(wanted, end) if end >= 0 else -1
