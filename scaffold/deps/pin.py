"""One version specifier of a package in a manifest, and the spellings of the package's name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name


@dataclass(frozen=True)
class Pin:
    """One version specifier of a package in a manifest.

    Args:
        spec: The specifier as written; "" where the package stands without one.
        group: What the manifest calls the list: "project.dependencies", or "" for a plain file.
        why_fixed: Why no edit is made here, or "".
    """

    path: str
    line: int
    start: int
    end: int
    spec: str
    group: str = ""
    why_fixed: str = ""

    @property
    def variant(self) -> str:
        """The variant of a project that the manifest is for; "" where it is for all of them."""
        return variant_of(self.path)


_VARIANT = re.compile(r"(?:^|/)pyproject(?:[._-](?P<name>[^/]+))?\.toml$")
DEFAULT_VARIANT = "default"
"""What the variant of a plain ``pyproject.toml`` is called."""


def variant_of(path: str) -> str:
    """Return the variant that a ``pyproject*.toml`` is for; "" for any other file."""
    found = _VARIANT.search(path)
    return "" if found is None else found["name"] or DEFAULT_VARIANT


def name_pattern(name: str) -> str:
    """Return a pattern for a name in any of its spellings."""
    parts = [re.escape(each) for each in normal_name(name).split("-")]
    # No \b, since "-" and "." are part of names. PEP 503 folds runs of [-_.].
    return rf"(?i:(?<![\w.$/-]){'[-_.]+'.join(parts)})(?![\w-]|\.\w)"


def pin_at(path: str, text: str, span: tuple[int, int], group: str = "", why: str = "") -> Pin:
    """Return the pin between two offsets of a manifest's text."""
    start, end = span
    return Pin(path, text.count("\n", 0, start) + 1, start, end, text[start:end], group, why)


class EditedFiles(Files):
    """A tree whose pins have moved, each to its new specifier."""

    def __init__(self, files: Files, specs: Iterable[tuple[Pin, str]]) -> None:
        super().__init__(files.root, list(files.paths), has_git=files.has_git)
        self._files = files
        places: dict[str, dict[tuple[int, int], str]] = {}
        for pin, spec in specs:
            places.setdefault(pin.path, {})[pin.start, pin.end] = spec
        self.edits = {path: self._edited(path, each) for path, each in sorted(places.items())}
        """The new bytes of each file that changes."""

    def _edited(self, path: str, places: dict[tuple[int, int], str]) -> bytes:
        # Offsets count in this decoding, which find_pins uses as well.
        text = (self._files.data(path) or b"").decode("utf-8", "surrogateescape")
        # From the end, so that earlier offsets stay right.
        for (start, end), spec in sorted(places.items(), reverse=True):
            text = f"{text[:start]}{spec}{text[end:]}"
        return text.encode("utf-8", "surrogateescape")

    def _read_bytes(self, path: str) -> bytes | None:
        return self.edits[path] if path in self.edits else self._files.data(path)
