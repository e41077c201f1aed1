"""Edits of registry files: each file is read once and changed once, whatever entries it gains."""

from __future__ import annotations

from collections.abc import Callable

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.report import Registration
from scaffold.transaction.change import Change


class RegistryEdits:
    """Collects the edits of one command.

    Args:
        read: Return the bytes of an entry's file; raises where it cannot be read.
    """

    def __init__(self, read: Callable[[Entry], bytes]) -> None:
        self.registered: list[Registration] = []
        self._read = read
        self._before: dict[str, bytes] = {}
        self._after: dict[str, bytes] = {}

    def text(self, entry: Entry) -> bytes:
        """Return an entry's file as the edits so far leave it."""
        # Read once: what another process writes meanwhile is found when the changes are applied.
        if entry.file not in self._after:
            self._before[entry.file] = self._after[entry.file] = self._read(entry)
        return self._after[entry.file]

    def add(self, entry: Entry) -> None:
        """Add an entry; see `scaffold.edit.shapes.add_entry`."""
        edit = shapes.add_entry(self.text(entry), entry)
        self._after[entry.file] = edit.data
        self.registered.append(
            Registration(entry.file, entry.table, entry.key, entry.value, edit.line)
        )

    def remove(self, entry: Entry) -> None:
        """Take an entry back; see `scaffold.edit.shapes.remove_entry`."""
        self._after[entry.file] = shapes.remove_entry(self.text(entry), entry)

    def changes(self) -> list[Change]:
        """Return the files that differ by now."""
        return [
            Change(file, "edited", before, self._after[file])
            for file, before in self._before.items()
            if before != self._after[file]
        ]
