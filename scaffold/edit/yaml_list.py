"""YAML: an item of a block list or block mapping, such as a table of contents.

``table`` is the way to the list from the root, its steps parted by ``/`` (``\\/`` is a slash in a
step): the key of a mapping, or the item of a list that has it as its only key or as its
``caption``, ``title``, ``name``, ``file`` or ``id``. An empty ``table`` is the root itself.

    nav                            nav/Reference/Rewards             parts/Extending/chapters

What a key and a value are depends on what stands there:

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
from dataclasses import dataclass
from typing import Any

from scaffold.edit.entry import Entry
from scaffold.edit.lines import (
    Span,
    Text,
    context_of,
    line_for,
    list_index,
    read_text,
    require_one_line,
)
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit
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
class _Entry:
    """An item as a pair; ``value`` is None where it is no plain text."""

    key: str | None
    value: str | None
    source: str
    key_source: str
    item: Item


@dataclass(frozen=True)
class _Table:
    text: Text
    root: Node
    node: Node
    known_by: str
    entries: tuple[_Entry, ...]

    def find(self, key: str) -> list[_Entry]:
        return [each for each in self.entries if each.key == key]


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the items; nested ones have the value None."""
    found = _locate(data, entry, context_of(entry))
    return {each.key: each.value for each in found.entries if each.key is not None}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the item is there with this value, however it is quoted."""
    found = _locate(data, entry, context_of(entry))
    return any(_matches(each, entry) for each in found.find(entry.key))


def text_to_add(entry: Entry) -> str:
    """Return the item as a line; that of a list, since only the file tells a mapping."""
    return "- " + _pair(entry, _known_by(entry.table), "", "")


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add an item at its sorted place, or behind the others where they are not sorted."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    found = _locate(data, entry, context)
    # The text to add by hand was made for a list, before the file was read.
    if found.node.kind == "mapping":
        context = context_of(entry, _pair(entry, "", "", "") + ("" if entry.value else ":"))
    for each in found.find(entry.key):
        if _matches(each, entry):
            return Edit(data, each.item.line + 1)
    if found.known_by and (found.node.kind != "list" or entry.value):
        reason = "only items of a list are known by a key, and those have no value of their own"
        raise context.refusal("registry_computed", found.node.line + 1, reason)
    for each in found.find(entry.key):
        reason = f"{entry.key!r} means {each.value!r}"
        raise context.refusal("registry_differs", each.item.line + 1, reason)
    _refuse_merged(found, context)
    index = _index(found, entry.key)
    line = _line_number(found, index)
    _refuse_open_block(found, index, line, context)
    after = found.text.with_line(line, _line(found, entry))
    _check(found, after, entry, context)
    return Edit(after, line + 1)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take an item back that has its line to itself."""
    context = context_of(entry)
    found = _locate(data, entry, context)
    hits = found.find(entry.key)
    # Of two items of one name the one that the tool wrote is taken out, never a person's.
    if len(hits) > 1:
        hits = [each for each in hits if _matches(each, entry)] or hits
    if not hits:
        return data
    item = hits[0].item
    if len(hits) > 1:
        raise context.refusal("registry_computed", item.line + 1, f"{entry.key!r} is there twice")
    if item.node.last > item.line or not _begins_line(found.text, item):
        reason = f"{entry.key!r} is not on a line of its own"
        raise context.refusal("registry_computed", item.line + 1, reason)
    return found.text.without_line(item.line)


# ---- finding the list ----------------------------------------------------------------------------


def _known_by(table: str) -> str:
    found = _KNOWN_BY.fullmatch(table)
    return found[2] if found else ""


def _locate(data: bytes, entry: Entry, context: Context) -> _Table:
    text = read_text(data, context)
    try:
        root = read_yaml(text.lines)
    except YamlError as error:
        raise context.refusal("registry_syntax", error.line, error.reason) from error
    known_by = _known_by(entry.table)
    path = entry.table[: -len(known_by) - 2] if known_by else entry.table
    node = root
    # A key that holds a slash is written with a backslash in front of it.
    for step in re.split(r"(?<!\\)/", path) if path else ():
        node = _step(node, step.replace(r"\/", "/"), context)
    _require_plain(node, path or "the document", context)
    if node.kind not in ("list", "mapping"):
        reason = f"{path or 'the document'} {_NAMES[node.kind]}"
        raise context.refusal("registry_computed", node.line + 1, reason)
    entries = tuple(_entry(item, known_by) for item in node.items)
    return _Table(text, root, node, known_by, entries)


def _require_plain(node: Node, name: str, context: Context) -> None:
    if node.is_marked:
        reason = f"an anchor or a tag is in front of {name}"
        raise context.refusal("registry_computed", node.line + 1, reason)


def _step(node: Node, step: str, context: Context) -> Node:
    _require_plain(node, "what holds " + step, context)
    hits = [hit for item in node.items if (hit := _selected(item, step)) is not None]
    if not hits:
        line = node.line + 1 if node.line else 0
        raise context.refusal("registry_missing", line, f"no {step!r} was found")
    if len(hits) > 1:
        raise context.refusal("registry_computed", hits[1].line + 1, f"{step!r} is there twice")
    return hits[0]


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


def _entry(item: Item, known_by: str) -> _Entry:
    if item.key is not None:
        return _Entry(item.key, item.node.text, item.node.source, item.source, item)
    node = item.node
    if node.kind != "mapping":
        is_known = node.kind == "text" and not (known_by or node.is_marked)
        key = (node.text or node.source or None) if is_known else None
        return _Entry(key, "", "", node.source, item)
    first = node.items[0]
    is_single = len(node.items) == 1
    if not known_by:
        value = first.node.text if is_single and first.node.kind == "text" else None
        return _Entry(first.key, value, first.node.source, first.source, item)
    for each in node.items:
        if each.key == known_by and each.node.source:
            key = each.node.text or each.node.source
            return _Entry(key, "" if is_single else None, "", each.node.source, item)
    return _Entry(None, None, "", "", item)


def _matches(found: _Entry, entry: Entry) -> bool:
    if "value" in entry.code:
        return found.source == entry.value
    return found.value == entry.value


# ---- what is added, and where --------------------------------------------------------------------


def _refuse_merged(found: _Table, context: Context) -> None:
    for item in found.node.items:
        # `<<: *base` may bring the key that is added, and then the file already has it unseen.
        if item.key == "<<":
            reason = "the mapping takes keys over from another one"
            raise context.refusal("registry_computed", item.line + 1, reason)


def _index(found: _Table, key: str) -> int:
    keys = [each.key for each in found.entries if each.key is not None]
    index = list_index(keys, key) if len(keys) == len(found.entries) else len(found.entries)
    # The first item shares its line with what is around it (`- - a`), so nothing fits above it.
    if not index and not _begins_line(found.text, found.node.items[0]):
        return len(found.entries)
    return index


def _line_number(found: _Table, index: int) -> int:
    spans = [Span(item.line, item.end) for item in found.node.items]
    lines = found.text.lines

    def is_comment(line: int) -> bool:
        return lines[line].lstrip().startswith("#")

    start = spans[0].first
    while start and is_comment(start - 1):
        start -= 1
    return line_for(spans, index, start, is_comment)


def _refuse_open_block(found: _Table, index: int, line: int, context: Context) -> None:
    """A text in lines at the end of a file gains a line end with whatever follows it."""
    if line == len(found.text.lines) and index and not found.text.ends[-1]:
        node = found.node.items[index - 1].node
        # What ends the file is the innermost last value of the item above.
        while node.items:
            node = node.items[-1].node
        if node.kind == "block":
            reason = "the text in lines at the end of the file has no line end"
            raise context.refusal("registry_computed", line, reason)


def _line(found: _Table, entry: Entry) -> str:
    # A block collection is never empty, so the first item shows the column.
    items = found.node.items
    indent = " " * items[0].column
    keys = _shared_quote([each.key_source for each in found.entries])
    values = _shared_quote([each.source for each in found.entries if each.source])
    pair = _pair(entry, found.known_by, keys, values)
    if found.node.kind == "mapping":
        return indent + pair + ("" if entry.value else ":")
    # Between dash and text: some files have two or three spaces there.
    dashes = [re.match(r"-( *)\S", found.text.lines[item.line][item.column :]) for item in items]
    padding = next((dash[1] for dash in dashes if dash and dash[1]), " ")
    return indent + "-" + padding + pair


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


def _begins_line(text: Text, item: Item) -> bool:
    return not text.lines[item.line][: item.column].strip()


# ---- checking ------------------------------------------------------------------------------------


def _check(found: _Table, after: bytes, entry: Entry, context: Context) -> None:
    """Read the file again: the whole document is what it was, but for the item."""
    edited = _locate(after, entry, context)
    hits = [each for each in edited.find(entry.key) if _matches(each, entry)]
    if len(hits) != 1 or content_of(edited.root, hits[0].item) != content_of(found.root, None):
        line = found.node.line + 1
        raise context.refusal("registry_computed", line, "the edited file reads differently")


def content_of(node: Node, without: Item | None) -> Any:
    """Return what a node says, apart from lines and columns, and apart from one item."""
    items = [
        (item.key, item.source, content_of(item.node, without))
        for item in node.items
        if item is not without
    ]
    return node.kind, node.source, node.text, node.is_marked, items
