"""Markdown: an item of a bullet list.

``table`` is the heading that the list stands under (the first list before the next heading); empty,
it is the only list of the page. ``key`` is the item's text as Markdown spells it, a link with its
brackets, say; with a value the item is ``key: value``. Items may go on below, indented; numbered
lists are refused, since a new item would change the numbers of others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Span, context_of, line_for, list_index, read_text, require_one_line
from scaffold.edit.markdown_text import Page, content, read_page, starts_block, visible
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit

# CommonMark: up to three spaces, a bullet, and what separates it from the text, as in `  - a`.
_BULLET = re.compile(r"( {0,3})([-*+])([ \t]+)(?=\S)")
_NUMBER = re.compile(r" {0,3}\d{1,9}[.)](?:[ \t]|$)")
# A thematic break, `* * *` or `---`, which begins as a bullet does.
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
# The first `: ` that is neither in code nor in a link: `[a: b](x): text` is split behind the link.
_SEPARATOR = re.compile(r"(?:`[^`]*`|\[[^\]]*\](?:\([^)]*\))?|[^`\[])*?: ")


@dataclass(frozen=True)
class _Item:
    """An item: its text behind the bullet, and the lines ``first`` to ``last`` that it takes."""

    text: str
    bullet: str
    first: int
    last: int

    @property
    def pair(self) -> tuple[str, str]:
        found = _SEPARATOR.match(self.text)
        return (
            (self.text[: found.end() - 2], self.text[found.end() :]) if found else (self.text, "")
        )


@dataclass(frozen=True)
class _List:
    page: Page
    items: tuple[_Item, ...]

    def find(self, entry: Entry) -> list[_Item]:
        """Return the items with an entry's key, whatever their value."""
        key = content(entry.key)
        return [
            item
            for item in self.items
            if content(item.pair[0]) == key or content(item.text) == key or _matches(item, entry)
        ]


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the items; what stands behind a colon and a space is the value."""
    items = _locate(data, entry, context_of(entry)).items
    return {content(key): content(value) for key, value in (item.pair for item in items)}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the item is there, whatever its bullet."""
    return any(_matches(item, entry) for item in _locate(data, entry, context_of(entry)).items)


def text_to_add(entry: Entry) -> str:
    """Return the item with a dash."""
    return "- " + _text(entry)


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add an item at its sorted place, or below the others where they are not sorted."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    found = _locate(data, entry, context)
    for item in found.find(entry):
        if _matches(item, entry):
            return Edit(data, item.first + 1)
        reason = f"{entry.key!r} means {item.pair[1]!r}"
        raise context.refusal("registry_differs", item.first + 1, reason)
    index = list_index([visible(item.text) for item in found.items], visible(_text(entry)))
    spans = [Span(item.first, item.last) for item in found.items]
    line = line_for(spans, index, spans[0].first, lambda _: False)
    bullet = found.items[max(index - 1, 0)].bullet
    after = found.page.text.with_line(line, bullet + _text(entry))
    _check(found, after, entry, line, context)
    return Edit(after, line + 1)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take an item out that has a line to itself."""
    context = context_of(entry)
    found = _locate(data, entry, context)
    hits = found.find(entry)
    if len(hits) > 1:
        # Of two items of one key the one that the tool wrote is meant, not a person's.
        hits = [item for item in hits if _matches(item, entry)] or hits
    if not hits:
        return data
    if len(hits) > 1 or hits[0].last != hits[0].first:
        line = hits[-1].first + 1
        reason = f"{entry.key!r} is not on one line of its own"
        raise context.refusal("registry_computed", line, reason)
    return found.page.text.without_line(hits[0].first)


def _text(entry: Entry) -> str:
    return f"{entry.key}: {entry.value}" if entry.value else entry.key


def _matches(item: _Item, entry: Entry) -> bool:
    return content(item.text) == content(_text(entry))


def _locate(data: bytes, entry: Entry, context: Context) -> _List:
    page = read_page(read_text(data, context))
    lines = page.sections(entry.table) if entry.table else [range(len(page.text.lines))]
    # A heading may occur several times; below each of them only the first list counts.
    hits = [each for section in lines for each in _lists(page, section, context)[:1]]
    if not entry.table:
        hits = _lists(page, lines[0], context)
    name = repr(entry.table) if entry.table else "the page"
    if not hits:
        line = lines[0].start if lines and entry.table else 0
        raise context.refusal("registry_missing", line, f"there is no list under {name}")
    if len(hits) > 1:
        line = hits[1].items[0].first + 1
        raise context.refusal("registry_computed", line, f"{name} has more than one list")
    return hits[0]


def _lists(page: Page, lines: range, context: Context) -> list[_List]:
    """Return the bullet lists of some lines, a numbered first one being refused."""
    lists: list[_List] = []
    items: list[_Item] = []
    for number in lines:
        line = page.text.lines[number]
        if not line.strip():
            continue
        bullet = _BULLET.match(line) if page.is_text[number] and not _RULE.match(line) else None
        column = len(line) - len(line.lstrip())
        # Indented at least as far as the item's text, the line goes on with the item.
        if items and (column >= len(items[-1].bullet) or _is_lazy(page, number, items[-1])):
            items[-1] = _Item(items[-1].text, items[-1].bullet, items[-1].first, number)
        elif bullet:
            # Another bullet character begins another list, as CommonMark has it.
            if items and items[-1].bullet.strip() != bullet[2]:
                lists.append(_List(page, tuple(items)))
                items = []
            items.append(_Item(line[bullet.end() :].rstrip(), bullet[0], number, number))
        else:
            if not (lists or items) and page.is_text[number] and _NUMBER.match(line):
                raise context.refusal("registry_computed", number + 1, "the list is numbered")
            if items:
                lists.append(_List(page, tuple(items)))
            items = []
    return [*lists, _List(page, tuple(items))] if items else lists


def _is_lazy(page: Page, number: int, item: _Item) -> bool:
    """Return whether a line, not indented, goes on with the paragraph of the item above it."""
    line = page.text.lines[number]
    is_structure = starts_block(line) or _RULE.match(line) or not page.is_text[number]
    return item.last == number - 1 and not is_structure


def _check(found: _List, after: bytes, entry: Entry, line: int, context: Context) -> None:
    """Read the page again: the same list has this item more."""
    edited = _locate(after, entry, context)
    others = [item.text for item in edited.items if item.first != line]
    mine = [item for item in edited.items if item.first == line]
    if not mine or not _matches(mine[0], entry) or others != [item.text for item in found.items]:
        reason = "the edited page reads differently"
        raise context.refusal("registry_computed", found.items[0].first + 1, reason)
