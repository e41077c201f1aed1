"""Every definition of a repository by its bare name, found by pattern and not by parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from scaffold.skills.repository.files import MAX_BYTES, Files

_DEFINITION = re.compile(
    rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+([A-Za-z_]\w*)"
    rb"|^([A-Za-z_]\w*)[ \t]*(?::[^=\n]+)?=[^=]",
    re.MULTILINE,
)


class Definitions:
    """Is where each name is defined, over all Python sources; built at the first question.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def paths(self, name: str) -> tuple[str, ...]:
        """Returns the files that define a name, sorted."""
        found = self._index.get(name.encode(), ())
        return tuple(self._files.python[each] for each in found)

    def places(self, name: str) -> tuple[tuple[str, int], ...]:
        """Returns the path and line of each definition of a name."""
        return tuple(place for path in self.paths(name) for place in self._lines(path, name))

    def names(self) -> Iterator[str]:
        """Yields every defined name."""
        return (name.decode() for name in self._index)

    @cached_property
    def _index(self) -> dict[bytes, tuple[int, ...]]:
        found: dict[bytes, tuple[int, ...]] = {}
        for number, path in enumerate(self._files.python):
            source = read_source(self._files, path)
            for first, second in set(_DEFINITION.findall(source)):
                name = first or second
                if number not in found.get(name, ()):
                    found[name] = (*found.get(name, ()), number)
        return found

    def _lines(self, path: str, name: str) -> Iterator[tuple[str, int]]:
        source = read_source(self._files, path)
        for match in _DEFINITION.finditer(source):
            if (match[1] or match[2]) == name.encode():
                yield path, source.count(b"\n", 0, match.end(match.lastindex or 0)) + 1


def read_source(files: Files, path: str) -> bytes:
    """Reads a source as bytes; empty where it is too long or unreadable.

    Not through ``Files.text``: that keeps every text, and this is asked for all of them.
    """
    place = files.root / path
    try:
        if place.stat().st_size > MAX_BYTES:
            return b""
        return place.read_bytes()
    except OSError:
        return b""
