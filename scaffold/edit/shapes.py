"""The shapes of registries that can be edited: one module per family, found by the shape's name.

Every module of SHAPES offers the functions of `Shape`. They are pure: bytes of a file in, bytes
out, nothing else of the file changes, and what cannot be edited without risk is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from scaffold.edit.entry import Entry
from scaffold.errors import RegistryError, nearest

SHAPES: dict[str, str] = {
    "assignment": "scaffold.edit.assignments",
    "branch": "scaffold.edit.branches",
    "call": "scaffold.edit.calls",
    "decorator": "scaffold.edit.decorators",
    "dict": "scaffold.edit.literals",
    "import": "scaffold.edit.imports",
    "list": "scaffold.edit.literals",
    "markdown": "scaffold.edit.markdown_table",
    "markdown-list": "scaffold.edit.markdown_list",
    "owners": "scaffold.edit.owners",
    "subscript": "scaffold.edit.calls",
    "text": "scaffold.edit.text_lines",
    "toml": "scaffold.edit.toml_lines",
    "yaml": "scaffold.edit.yaml_list",
}
"""Shape to the module that edits it; loaded on first use, so that a command pays for its own."""


@dataclass(frozen=True)
class Edit:
    """The outcome of an edit: the file's bytes, and the line of the entry (from 1)."""

    data: bytes
    line: int


class Shape(Protocol):
    """What a module that edits a shape offers; `entry` names file, table, key and value."""

    def read_entries(self, data: bytes, entry: Entry) -> dict[str, str | None]:
        """Return every key of the entry's table with its value, None where that is no plain text.

        Only the entry's file and table are looked at. Raises RegistryError.
        """
        ...

    def has_entry(self, data: bytes, entry: Entry) -> bool:
        """Return whether the entry is there, with this very value. Raises RegistryError."""
        ...

    def add_entry(self, data: bytes, entry: Entry) -> Edit:
        """Add the entry; the same bytes come back where it is there already.

        Raises RegistryError where the edit is not safe, with the exact text to add in its hint.
        """
        ...

    def remove_entry(self, data: bytes, entry: Entry) -> bytes:
        """Take the entry back by its key, whatever its value; bytes as before it was added.

        The same bytes come back where it is not there. Raises RegistryError.
        """
        ...

    def text_to_add(self, entry: Entry) -> str:
        """Return the text that a person would add by hand."""
        ...


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return what a table holds; see `Shape`."""
    return _shape(entry).read_entries(data, entry)


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether an entry is there; see `Shape`."""
    return _shape(entry).has_entry(data, entry)


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add an entry; see `Shape`."""
    return _shape(entry).add_entry(data, entry)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take an entry back; see `Shape`."""
    return _shape(entry).remove_entry(data, entry)


def text_to_add(entry: Entry) -> str:
    """Return the text that a person would add by hand; see `Shape`."""
    return _shape(entry).text_to_add(entry)


def _shape(entry: Entry) -> Shape:
    if entry.shape not in SHAPES:
        raise RegistryError(
            f"{entry.file}: a registry of shape {entry.shape!r} cannot be edited"
            f"{nearest(entry.shape, SHAPES)}",
            code="registry_computed",
        )
    return cast("Shape", import_module(SHAPES[entry.shape]))
