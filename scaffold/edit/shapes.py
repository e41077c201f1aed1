"""The shapes of registries that can be edited: one class per family, found by the shape's name.

The functions are pure: bytes of a file in, bytes out, nothing else of the file changes, and what
cannot be edited without risk is refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scaffold.edit.entry import Entry
from scaffold.edit.table import Edit, Table
from scaffold.errors import RegistryError, nearest

SHAPES: dict[str, str] = {
    "assignment": "assignments:Assignments",
    "branch": "branches:Branches",
    "call": "calls:Calls",
    "decorator": "decorators:Decorators",
    "dict": "literals:Literals",
    "import": "imports:Imports",
    "list": "literals:Literals",
    "markdown": "markdown_table:MarkdownTable",
    "markdown-list": "markdown_list:MarkdownList",
    "owners": "owners:Owners",
    "subscript": "calls:Calls",
    "text": "text_lines:TextLines",
    "toml": "toml_lines:TomlLines",
    "yaml": "yaml_list:YamlList",
}
"""Shape to the class that edits it; loaded on first use, so that a command pays for its own."""


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return every key of the entry's table with its value, None where that is no plain text.

    Only the entry's file and table are looked at. Raises RegistryError.
    """
    return _shape(entry)(data, entry).entries()


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the entry is there, with this very value. Raises RegistryError."""
    return _shape(entry)(data, entry).has()


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add the entry; the same bytes come back where it is there already.

    Raises RegistryError where the edit is not safe, with the exact text to add in its hint.
    """
    shape = _shape(entry)
    return shape(data, entry, shape.text(entry)).added()


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the entry back by its key, whatever its value; bytes as before it was added.

    The same bytes come back where it is not there. Raises RegistryError.
    """
    return _shape(entry)(data, entry).removed()


def text_to_add(entry: Entry) -> str:
    """Return the text that a person would add by hand."""
    return _shape(entry).text(entry)


def _shape(entry: Entry) -> type[Table[Any]]:
    if entry.shape not in SHAPES:
        raise RegistryError(
            f"{entry.file}: a registry of shape {entry.shape!r} cannot be edited"
            f"{nearest(entry.shape, SHAPES)}",
            code="registry_computed",
        )
    module, _, name = SHAPES[entry.shape].partition(":")
    return getattr(import_module(f"scaffold.edit.{module}"), name)
