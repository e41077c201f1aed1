"""One value of a YAML file, set and taken back; comments, order and all other bytes stay.

A key is the way to it from the root, with dots: ``train_dataset.path``. Values are YAML source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Text, read_text
from scaffold.edit.refusal import Context
from scaffold.edit.setting import Setting
from scaffold.edit.shapes import add_entry, remove_entry
from scaffold.edit.yaml_list import content_of
from scaffold.edit.yaml_tree import Item, Node, YamlError, read_yaml
from scaffold.errors import RegistryError


def find_value(data: bytes, file: str, key: str) -> tuple[bool, str | None]:
    """Return whether the mapping that holds a key is there, and the source of the key's value.

    The source is None without the key, and "" for a value that takes several lines.

    Raises:
        RegistryError: The file cannot be read.
    """
    found = _Found(data, file, key)
    return found.parent is not None, None if found.item is None else found.item.node.source


def set_value(data: bytes, setting: Setting) -> tuple[bytes, int]:
    """Return the file with a key set, and the line of it (from 1).

    Raises:
        RegistryError: The file cannot be edited with certainty.
    """
    found = _Found(data, setting.file, setting.key, setting.value)
    if found.item is not None:
        return found.replaced(setting.value), found.item.line + 1
    edit = add_entry(data, found.entry)
    return edit.data, edit.line


def take_back(data: bytes, setting: Setting) -> bytes:
    """Return the file as before; unchanged where the key has another value by now.

    Raises:
        RegistryError: The file cannot be edited with certainty.
    """
    found = _Found(data, setting.file, setting.key, setting.value)
    if found.item is None or not _is_same(found.item.node.source, setting.value):
        return data
    if setting.was is None:
        return remove_entry(data, found.entry)
    return found.replaced(setting.was)


def take_back_all(data: bytes, settings: Iterable[Setting]) -> bytes:
    """Return the file as before a set of settings, in whatever order they were made.

    Raises:
        RegistryError: The file cannot be edited with certainty.
    """
    by_key: dict[str, list[Setting]] = {}
    for row in settings:
        by_key.setdefault(row.key, []).append(row)
    for key, rows in by_key.items():
        _, now = find_value(data, rows[0].file, key)
        last = next((row for row in rows if now is not None and _is_same(now, row.value)), None)
        if last is not None:
            data = take_back(data, last._replace(was=_before_all(rows, last)))
    return data


def _before_all(rows: Iterable[Setting], last: Setting) -> str | None:
    """Return what was there before a setting and those that it was set over, one after another."""
    was: dict[str, list[str | None]] = {}
    for row in rows:
        was.setdefault(row.value, []).append(row.was)
    # A unit may have been set twice, with others in between, so that there are several ways back.
    todo, seen = [last.value], {last.value}
    while todo:
        for each in was[todo.pop()]:
            if each is None or each not in was:
                return each
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return last.was


def _is_same(source: str, value: str) -> bool:
    """Return whether a value is what it was set to, which a person may have quoted since."""
    if source == value:
        return True
    try:
        return bool(source) and yaml.safe_load(source) == yaml.safe_load(value)
    except yaml.YAMLError:  # an alias, say
        return False


class _Found:
    """A key of a file: the mapping around it, and its item where it is there."""

    def __init__(self, data: bytes, file: str, key: str, value: str = "") -> None:
        self.key = key
        *path, last = key.split(".")
        table = "/".join(path)
        self.entry = Entry(file, table, "yaml", last, value, ("value",))
        self.context = Context(file, table, f"{last}: {value}")
        self.text: Text = read_text(data, self.context)
        self.root = self._read(self.text)
        node: Node | None = self.root
        for step in path:
            node = next((each.node for each in node.items if each.key == step), None)
            if node is None or node.kind != "mapping":
                node = None
                break
        self.parent = node
        items = [each for each in node.items if each.key == last] if node else []
        if len(items) > 1:
            raise self._refusal(items[1], f"{last!r} is there twice")
        self.item: Item | None = items[0] if items else None

    def replaced(self, value: str) -> bytes:
        """Return the file with another value in the place of the key's."""
        item = self.item
        assert item is not None
        line = self.text.lines[item.line]
        name = re.escape(item.source) + r"[ \t]*:[ \t]*"
        head = re.match(f".{{{item.column}}}{name}", line)
        node = item.node
        if not head or not node.source or node.line != item.line or node.last != item.line:
            raise self._refusal(
                item, f"the value of {self.entry.key} is not a single piece of text"
            )
        if node.is_marked or not line.startswith(node.source, head.end()):
            raise self._refusal(item, f"an anchor or a tag is in front of {self.entry.key}")
        new = head[0] + value + line[head.end() + len(node.source) :]
        after = self.text.with_changed(item.line, new)
        again = _Found(after, self.entry.file, self.key, value)
        # Read again: the whole document is what it was, but for the value.
        same = content_of(again.root, again.item) == content_of(self.root, item)
        if again.item is None or again.item.node.source != value or not same:
            raise self._refusal(item, "the edited file reads differently")
        return after

    def _read(self, text: Text) -> Node:
        try:
            return read_yaml(text.lines)
        except YamlError as error:
            raise self.context.refusal("registry_syntax", error.line, error.reason) from error

    def _refusal(self, item: Item, reason: str) -> RegistryError:
        return self.context.refusal("registry_computed", item.line + 1, reason)
