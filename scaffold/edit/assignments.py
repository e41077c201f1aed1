"""Registration by assignments that are alike: members of an enumeration, constants of a module.

The table is the pattern of their names: ``Color.*`` for all of a class, ``MAX_*_SIZE`` for those of
a module. A new one goes to its sorted place among them, or behind the last one.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.address import class_bodies
from scaffold.edit.entry import Entry
from scaffold.edit.layout import indent_at
from scaffold.edit.python_file import parse_expression as parse_address
from scaffold.edit.rows import common_gap, delete_row, insert_row
from scaffold.edit.shapes import Edit
from scaffold.edit.statements import (
    SHARED_LINE,
    Script,
    literal,
    position_of,
    read_script,
    reindented,
    settled,
    sorted_index,
    there,
)


@dataclass(frozen=True)
class _Item:
    """One assignment of those that are alike."""

    key: str
    value: str | None
    node: ast.Assign | ast.AnnAssign


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the names with their values.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    return {item.key: item.value for item in _items(read_script(data, entry))}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the name is assigned this very value.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    return read_entries(data, entry).get(entry.key) == entry.value


def text_to_add(entry: Entry) -> str:
    """Return the assignment that a person would add by hand."""
    value = entry.value if "value" in entry.code else literal(entry.value, '"')
    return f"{entry.key} = {value}"


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add an assignment at its sorted place among those that are alike, or behind the last one.

    Raises:
        RegistryError: The edit is not safe; the hint holds the text to add by hand.
    """
    script = read_script(data, entry, text_to_add(entry))
    items = _items(script)
    same = next((item for item in items if item.key == entry.key), None)
    if same and same.value == entry.value:
        return there(script, data, script.start(same.node))
    if same:
        line = same.node.lineno
        raise script.refusal("registry_differs", line, f"{entry.key} is assigned already")
    if not items:
        raise script.refusal("registry_missing", 0, f"there is nothing like {entry.table}")
    index = sorted_index([item.key for item in items], entry.key)
    near = items[max(index - 1, 0)].node
    if not all(map(script.owns_lines, [near, items[0].node])):
        raise script.refusal("registry_computed", near.lineno, SHARED_LINE)
    rows = [script.row(item.node) for item in items]
    outer = indent_at(script.raw, rows[0].start)
    lines = reindented(script, text_to_add(entry), outer)
    splice = insert_row(script.raw, rows, index, lines, common_gap(script.raw, rows))
    edited = script.with_splices(splice)
    settled(script, data, edited, has_entry, remove_entry)
    item = next(each for each in _items(read_script(edited, entry)) if each.key == entry.key)
    return Edit(edited, item.node.lineno)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the assignment back by its name.

    Raises:
        RegistryError: The file cannot be parsed, or the assignment cannot be taken out.
    """
    script = read_script(data, entry)
    items = _items(script)
    index = position_of(items, entry.key)
    if index is None:
        return data
    node = items[index].node
    if len(items) == 1 or not script.owns_lines(node):
        reason = SHARED_LINE if len(items) > 1 else "it is the only one of its sort"
        raise script.refusal("registry_computed", node.lineno, reason)
    rows = [script.row(item.node) for item in items]
    gap = common_gap(script.raw, rows[:index] + rows[index + 1 :])
    return script.with_splices(delete_row(script.raw, rows, index, gap))


def _items(script: Script) -> list[_Item]:
    owner, _, pattern = script.entry.table.rpartition(".")
    bodies: Sequence[Sequence[ast.stmt]] = [script.tree.body]
    if owner:
        bodies = list(class_bodies(script.tree.body, parse_address(owner)))
    found: list[_Item] = []
    for node in (node for body in bodies for node in body):
        if isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        else:
            continue
        if isinstance(target, ast.Name) and value and fnmatch.fnmatchcase(target.id, pattern):
            found.append(_Item(target.id, script.known_as(value, "value"), node))
    return found
