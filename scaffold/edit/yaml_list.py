"""YAML: an item of a block list or block mapping, such as a table of contents.

``table`` is the way to the list from the root, its steps parted by ``/`` (``\\/`` is a slash in a
step): the key of a mapping, or the item of a list that has it as its only key or as its
``caption``, ``title``, ``name``, ``file`` or ``id``. An empty ``table`` is the root itself.

    nav                            nav/Reference/Rewards             parts/Extending/chapters

What a key and a value are depends on what is there:

    list of texts                  - a.md                            key "a.md", no value
    list of single pairs           - Math debate: math_debate.md     key "Math debate", value
    mapping                        math_debate: pkg.math_debate      key "math_debate", value
    ``chapters[file]``             - file: rewards/math_debate       key "rewards/math_debate"

``[file]`` behind the path names the key that items of a list are known by, where all of them share
it. With ``code = ["value"]`` the value is YAML source: a number, ``true``, ``[a, b]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Lines, Span, list_index
from scaffold.edit.yaml_tree import Item, Node, YamlError, is_plain_text, read_yaml

_TITLES = ("caption", "title", "name", "file", "id")
_KNOWN_BY = re.compile(r"(.*)\[([\w-]+)\]", re.DOTALL)
# Texts that are no plain scalar: with an indicator in front, `: ` or ` #` inside, or a document
# mark.
_NEEDS_QUOTES = re.compile(
    r"[\s,\[\]{}#&*!|>'\"%@`=]|[-?:](?:\s|$)|.*(?::\s|\s#|[\s:]$)|---|\.\.\.", re.DOTALL
)
_NAMES: dict[str, str] = {
    "flow": "is written in brackets",
    "alias": "is an alias",
    "empty": "is empty, and may be a list or a mapping",
    "text": "is a text",
    "block": "is a text",
}


@dataclass(frozen=True)
class _Item:
    """An item as a pair; ``value`` is None where it is no plain text."""

    key: str | None
    value: str | None
    source: str
    key_source: str
    item: Item


class YamlList(Lines[_Item]):
    """The items of a block list or block mapping."""

    @staticmethod
    def text(entry: Entry) -> str:
        # That of a list, since only the file shows a mapping.
        return "- " + _pair(entry, _known_by(entry.table), "", "")

    def find(self) -> list[_Item]:
        try:
            self.root = read_yaml(self.file.lines)
        except YamlError as error:
            raise self.refusal("registry_syntax", error.line, error.reason) from error
        table = self.entry.table
        self.known_by = known_by = _known_by(table)
        path = table[: -len(known_by) - 2] if known_by else table
        node = self.root
        # A key that holds a slash is written with a backslash in front of it.
        for step in re.split(r"(?<!\\)/", path) if path else ():
            node = self._step(node, step.replace(r"\/", "/"))
        self._require_plain(node, path or "the document")
        if node.kind not in ("list", "mapping"):
            reason = f"{path or 'the document'} {_NAMES[node.kind]}"
            raise self.refusal("registry_computed", node.line + 1, reason)
        self.node = node
        return [_entry(item, known_by) for item in node.items]

    def _require_plain(self, node: Node, name: str) -> None:
        if node.is_marked:
            reason = f"an anchor or a tag is in front of {name}"
            raise self.refusal("registry_computed", node.line + 1, reason)

    def _step(self, node: Node, step: str) -> Node:
        self._require_plain(node, "what holds " + step)
        hits = [hit for item in node.items if (hit := _selected(item, step)) is not None]
        if not hits:
            line = node.line + 1 if node.line else 0
            raise self.refusal("registry_missing", line, f"no {step!r} was found")
        if len(hits) > 1:
            raise self.refusal("registry_computed", hits[1].line + 1, f"{step!r} is there twice")
        return hits[0]

    def line(self, item: _Item) -> int:
        return item.item.line + 1

    def matches(self, item: _Item) -> bool:
        return (item.source if "value" in self.entry.code else item.value) == self.entry.value

    def differs(self, item: _Item) -> str:
        return f"{self.entry.key!r} means {item.value!r}"

    def check_entry(self) -> None:
        super().check_entry()
        is_list = self.node.kind == "list"
        # The text to add by hand was made for a list, before the file was read.
        if not is_list:
            text = _pair(self.entry, "", "", "") + ("" if self.entry.value else ":")
            self.context = replace(self.context, entry=text)
        if self.known_by and not self.has() and (not is_list or self.entry.value):
            reason = "only items of a list are known by a key, and those have no value of their own"
            raise self.refusal("registry_computed", self.node.line + 1, reason)

    def with_entry(self) -> bytes:
        self._refuse_merged()
        index = self._index()
        spans = [Span(item.line, item.end) for item in self.node.items]
        line = self.line_for(spans, index, 0)
        self._refuse_open_block(index, line)
        return self.file.with_line(line, self._written())

    def without(self, hits: list[_Item]) -> bytes:
        item = hits[0].item
        line = self.line(hits[0])
        if len(hits) > 1:
            raise self.refusal("registry_computed", line, f"{self.entry.key!r} is there twice")
        if item.node.last > item.line or not self._begins_line(item):
            reason = f"{self.entry.key!r} is not on a line of its own"
            raise self.refusal("registry_computed", line, reason)
        return self.file.without_line(item.line)

    def said(self, without: _Item | None = None) -> object:
        """Return the whole document, but for an item."""
        return content_of(self.root, without and without.item)

    def unsound(self) -> tuple[int, str]:
        return self.node.line + 1, super().unsound()[1]

    def _refuse_merged(self) -> None:
        for item in self.node.items:
            # `<<: *base` may bring the key that is added, and then the file already has it unseen.
            if item.key == "<<":
                reason = "the mapping takes keys over from another one"
                raise self.refusal("registry_computed", item.line + 1, reason)

    def _index(self) -> int:
        keys = [each.key for each in self.items if each.key is not None]
        index = (
            list_index(keys, self.entry.key) if len(keys) == len(self.items) else len(self.items)
        )
        # The first item shares its line with what is around it (`- - a`), so nothing fits above it.
        if not index and not self._begins_line(self.node.items[0]):
            return len(self.items)
        return index

    def _begins_line(self, item: Item) -> bool:
        return not self.file.lines[item.line][: item.column].strip()

    def _refuse_open_block(self, index: int, line: int) -> None:
        """A text in lines at the end of a file gains a line end with whatever follows it."""
        if line == len(self.file.lines) and index and not self.file.ends[-1]:
            node = self.node.items[index - 1].node
            # What ends the file is the innermost last value of the item above.
            while node.items:
                node = node.items[-1].node
            if node.kind == "block":
                reason = "the text in lines at the end of the file has no line end"
                raise self.refusal("registry_computed", line, reason)

    def _written(self) -> str:
        entry = self.entry
        # A block collection is never empty, so the first item shows the column.
        items = self.node.items
        indent = " " * items[0].column
        keys = _shared_quote([each.key_source for each in self.items])
        values = _shared_quote([each.source for each in self.items if each.source])
        pair = _pair(entry, self.known_by, keys, values)
        if self.node.kind == "mapping":
            return indent + pair + ("" if entry.value else ":")
        # Between dash and text: some files have two or three spaces there.
        dashes = [re.match(r"-( *)\S", self.file.lines[item.line][item.column :]) for item in items]
        padding = next((dash[1] for dash in dashes if dash and dash[1]), " ")
        return indent + "-" + padding + pair


def _known_by(table: str) -> str:
    found = _KNOWN_BY.fullmatch(table)
    return found[2] if found else ""


def _selected(item: Item, step: str) -> Node | None:
    """Return the node that a step leads to by way of an item, or None."""
    if item.key is not None:
        return item.node if item.key == step else None
    inner = item.node.items if item.node.kind == "mapping" else ()
    if len(inner) == 1 and inner[0].key == step:
        return inner[0].node
    # A step through a list goes by the title of an item, as people name it.
    named = any(each.key in _TITLES and each.node.text == step for each in inner)
    return item.node if named else None


def _entry(item: Item, known_by: str) -> _Item:
    if item.key is not None:
        return _Item(item.key, item.node.text, item.node.source, item.source, item)
    node = item.node
    if node.kind != "mapping":
        is_known = node.kind == "text" and not (known_by or node.is_marked)
        key = (node.text or node.source or None) if is_known else None
        return _Item(key, "", "", node.source, item)
    first = node.items[0]
    is_single = len(node.items) == 1
    if not known_by:
        value = first.node.text if is_single and first.node.kind == "text" else None
        return _Item(first.key, value, first.node.source, first.source, item)
    for each in node.items:
        if each.key == known_by and each.node.source:
            key = each.node.text or each.node.source
            return _Item(key, "" if is_single else None, "", each.node.source, item)
    return _Item(None, None, "", "", item)


def _shared_quote(sources: Sequence[str]) -> str:
    """Return the quotation mark that all siblings have, or nothing."""
    starts = {source[:1] for source in sources}
    return starts.pop() if len(starts) == 1 and starts <= {"'", '"'} else ""


def _pair(entry: Entry, known_by: str, key_quote: str, value_quote: str) -> str:
    key = scalar_source(entry.key, key_quote)
    if known_by:
        return f"{known_by}: {key}"
    if not entry.value:
        return key
    value = entry.value if "value" in entry.code else scalar_source(entry.value, value_quote)
    return f"{key}: {value}"


def scalar_source(text: str, quote: str) -> str:
    """Write a text so that YAML reads that text, quoted where it has to be or siblings are."""
    is_printable = text.isprintable() and "\ufeff" not in text
    if not quote and is_printable and is_plain_text(text) and not _NEEDS_QUOTES.match(text):
        return text
    # Single quotes escape nothing but themselves, which keeps quotes and backslashes readable.
    if is_printable and (quote == "'" or (not quote and re.search(r'["\\]', text))):
        return "'" + text.replace("'", "''") + "'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_escaped, escaped)) + '"'


def _escaped(char: str) -> str:
    if char.isprintable() and char != "\ufeff":
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def content_of(node: Node, without: Item | None) -> Any:
    """Return what a node holds, apart from lines and columns, and apart from one item."""
    items = [
        (item.key, item.source, content_of(item.node, without))
        for item in node.items
        if item is not without
    ]
    return node.kind, node.source, node.text, node.is_marked, items
