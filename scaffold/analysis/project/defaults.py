"""The defaults of fields, parameters and options, by their names, as Python sources write them."""

from __future__ import annotations

import re
from functools import lru_cache

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

# `field(default=3`, `Field(3`: what a dataclass or pydantic is given.
_FIELD = lazy_re(r"^(?:\w+\.)?[Ff]ield\((?:default[ \t]*=[ \t]*)?")


class Defaults:
    """The defaults of a repository.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.of = lru_cache(maxsize=256)(self._find)

    def _find(self, name: str) -> dict[str, str]:
        """Return the defaults of all that has a name, each with a place."""
        word, option = name.encode(), name.replace("_", "-").encode()
        given = re.compile(
            # An annotation ends at a comma that is in no brackets.
            rb"(?<![\w.])%b[ \t]*:(?:\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]|[^=\n(){},\[])*"
            rb"=[ \t]*([^,)\n#]+)"
            rb"|[\"']--(?:%b|%b)[\"'][^()]*?(?:\([^()]*\)[^()]*?)*\bdefault[ \t]*=[ \t]*([^,)\n#]+)"
            % (re.escape(word), re.escape(word), re.escape(option))
        )
        found: dict[str, str] = {}
        for path in self._files.python:
            source = self._files.data(path) or b""
            if word in source or option in source:
                for each in given.finditer(source):
                    text = (each[1] or each[2]).strip().decode("utf-8", "replace")
                    default = _FIELD.sub("", text)
                    line = source.count(b"\n", 0, each.start()) + 1
                    found.setdefault(default, f"{path}:{line}")
        return {self._constant(default) or default: place for default, place in found.items()}

    def _constant(self, name: str) -> str:
        """Return the literal that all sources give a constant, or nothing."""
        if not name.isupper() or not name.isidentifier():
            return ""
        given = re.compile(
            rb"^%b[ \t]*(?::[^=\n]+)?=[ \t]*(\"[^\"\n]*\"|'[^'\n]*'|[\d.]+)[ \t]*(?:#.*)?$"
            % name.encode(),
            re.MULTILINE,
        )
        sources = (self._files.data(path) or b"" for path in self._files.python)
        found = {each for source in sources for each in given.findall(source)}
        return found.pop().decode("utf-8", "replace") if len(found) == 1 else ""
