"""The files of a tree with other specifiers in the places of pins; the disk stays as it is."""

from __future__ import annotations

from collections.abc import Iterable

from scaffold.analysis.files.files import Files
from scaffold.deps.pin import Pin


class EditedFiles(Files):
    """A tree whose pins have moved.

    Args:
        files: The tree.
        specs: The pins that move, each with its new specifier.
    """

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
