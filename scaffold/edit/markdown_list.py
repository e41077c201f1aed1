"""Markdown: an item of a bullet list.

``table`` is the heading that the list is under (the first list before the next heading); empty,
it is the only list of the page. ``key`` is the item's text as Markdown spells it, a link with its
brackets, say; with a value the item is ``key: value``. Items may go on below, indented; numbered
lists are refused, since a new item would change the numbers of others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Span, list_index
from scaffold.edit.markdown_text import Markdown, Page, content, starts_block, visible

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
    def key(self) -> str:
        """What comes before a colon and a space; the whole text without them."""
        found = _SEPARATOR.match(self.text)
        return self.text[: found.end() - 2] if found else self.text

    @property
    def value(self) -> str:
        """What comes after them."""
        found = _SEPARATOR.match(self.text)
        return self.text[found.end() :] if found else ""


class MarkdownList(Markdown[_Item]):
    """The items of one bullet list of a page."""

    @staticmethod
    def text(entry: Entry) -> str:
        return "- " + _text(entry)

    def find(self) -> tuple[_Item, ...]:
        page, entry = self.page, self.entry
        lines = page.sections(entry.table) if entry.table else [range(len(page.text.lines))]
        # A heading may occur several times; below each of them only the first list counts.
        hits = [each for section in lines for each in self._lists(section)[:1]]
        if not entry.table:
            hits = self._lists(lines[0])
        name = repr(entry.table) if entry.table else "the page"
        if not hits:
            line = lines[0].start if lines and entry.table else 0
            raise self.refusal("registry_missing", line, f"there is no list under {name}")
        if len(hits) > 1:
            line = hits[1][0].first + 1
            raise self.refusal("registry_computed", line, f"{name} has more than one list")
        return hits[0]

    def _lists(self, lines: range) -> list[tuple[_Item, ...]]:
        """Return the bullet lists of some lines, a numbered first one being refused."""
        lists: list[tuple[_Item, ...]] = []
        items: list[_Item] = []
        page = self.page
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
                    lists.append(tuple(items))
                    items = []
                items.append(_Item(line[bullet.end() :].rstrip(), bullet[0], number, number))
            else:
                if not (lists or items) and page.is_text[number] and _NUMBER.match(line):
                    raise self.refusal("registry_computed", number + 1, "the list is numbered")
                if items:
                    lists.append(tuple(items))
                items = []
        return [*lists, tuple(items)] if items else lists

    def line(self, item: _Item) -> int:
        return item.first + 1

    def matches(self, item: _Item) -> bool:
        return content(item.text) == content(_text(self.entry))

    def hits(self) -> list[_Item]:
        key, own = content(self.entry.key), super().hits()
        return [
            item
            for item in self.items
            if item in own or content(item.text) == key or self.matches(item)
        ]

    def with_entry(self) -> bytes:
        text = _text(self.entry)
        index = list_index([visible(item.text) for item in self.items], visible(text))
        spans = [Span(item.first, item.last) for item in self.items]
        line = self.line_for(spans, index, spans[0].first)
        return self.file.with_line(line, self.items[max(index - 1, 0)].bullet + text)

    def without(self, hits: list[_Item]) -> bytes:
        if len(hits) > 1 or hits[0].last != hits[0].first:
            reason = f"{self.entry.key!r} is not on one line of its own"
            raise self.refusal("registry_computed", self.line(hits[-1]), reason)
        return self.file.without_line(hits[0].first)

    def said(self, without: _Item | None = None) -> object:
        return [item.text for item in self.items if item is not without]


def _text(entry: Entry) -> str:
    return f"{entry.key}: {entry.value}" if entry.value else entry.key


def _is_lazy(page: Page, number: int, item: _Item) -> bool:
    """Return whether a line, not indented, goes on with the paragraph of the item above it."""
    line = page.text.lines[number]
    is_structure = starts_block(line) or _RULE.match(line) or not page.is_text[number]
    return item.last == number - 1 and not is_structure
