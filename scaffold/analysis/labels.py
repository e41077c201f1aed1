"""Words with hyphens that files define: keys of data, targets of builds, classes of styles."""

from __future__ import annotations

import re
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import NearNames

MAX_BYTES = 400_000
_KEYS = (".yml", ".yaml", ".json", ".toml")
_BUILDS = frozenset({"Makefile", "makefile", "justfile", "Justfile"})
# `build-wheels:`, `"build-wheels": ...`, `build-wheels = ...`, `id: build-wheels`.
_KEY = lazy_re(
    r"^[ \t]*(?:- )?(?:(?:id|name):[ \t]*)?[\"'@]?([a-z][a-z0-9]*(?:-[a-z0-9]+)+)[\"']?"
    r"[ \t]*(?:[:=]|$)",
    re.MULTILINE,
)
_CLASS = lazy_re(r"\.([a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?=[\s,.:{>\[])")


class Labels:
    """The labels of a repository.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @cached_property
    def names(self) -> dict[str, str]:
        """Each label with a file that has it."""
        found: dict[str, str] = {}
        for path in self._files.sorted_paths:
            is_sheet = path.endswith((".css", ".scss"))
            is_data = path.endswith(_KEYS) or path.rpartition("/")[2] in _BUILDS
            data = (self._files.data(path) or b"") if is_sheet or is_data else b""
            if 0 < len(data) <= MAX_BYTES:
                text = data.decode("utf-8", "replace")
                for label in (_CLASS if is_sheet else _KEY).findall(text):
                    found.setdefault(label, path)
        return found

    @cached_property
    def near(self) -> NearNames:
        """The labels, for the one that a label which is not there most likely means."""
        return NearNames(self.names)
