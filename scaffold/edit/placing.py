"""Which place among the entries of a literal a new one takes.

- Where the keys are in an order, the entry takes its place in it; ``__all__`` is taken to be sorted
  as ruff does where it may be.
- Where they are not and the entry has a neighbour, it joins the group of that one.
- Where they are not, but comments or blank lines divide them into groups that each keep one order,
  it joins the group with the entry that it resembles most (the last such group), in its order.
- Else it comes last.

At the border of two groups the entry joins the one it resembles more, or the upper one. A comment
that has a line to itself heads a group, unless it names the entry below it or no group is larger
than one entry: such comments are about single entries, and nothing comes between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.forms import Item, Literal
from scaffold.edit.layout import NEWLINE, TAIL, own_line_comments
from scaffold.edit.ordering import Order, isort_style, order_of, similarity, sorted_index
from scaffold.edit.python_file import text_of


@dataclass(frozen=True)
class Slot:
    """A place: in front of the entry of an index; above the comments of that entry, or below."""

    index: int
    is_below_comments: bool = False


@dataclass(frozen=True)
class _Group:
    """A run of entries; ``is_headed`` where a comment is above the first of them."""

    start: int
    end: int
    is_headed: bool


def find_slot(literal: Literal, entry: Entry) -> Slot:
    """Return where an entry goes in a literal of its registry."""
    key, value = entry.key, entry.value
    items = literal.items
    groups = _groups(literal)
    likely = isort_style if entry.table == "__all__" else None
    order = order_of([_keys(items)], likely)
    if not _keys(items):
        return Slot(len(items))
    # Sorted as a whole: groups are no sections then, whatever blank lines part them.
    if order is not None:
        index = _index_in(items, 0, len(items), key, order)
        return Slot(index, _goes_below(literal, groups, index, key, value))
    runs = [_keys(items[group.start : group.end]) for group in groups]
    order = order_of(runs, likely)
    beside = [group for group, run in zip(groups, runs, strict=True) if entry.near in run]
    if beside and len(groups) > 1:
        group = beside[-1]
        own = order_of([_keys(items[group.start : group.end])], likely)
        index = group.end if own is None else _index_in(items, group.start, group.end, key, own)
        return Slot(index, index == group.start)
    # Groups of one entry are each in any order, which shows nothing.
    if len(groups) < 2 or order is None or max(map(len, runs)) < 2:
        return Slot(len(items))
    # `max` keeps the first of equals: among groups that are equally near the last one wins.
    group = max(reversed(groups), key=lambda each: _similarity(items, each, key, value))
    index = _index_in(items, group.start, group.end, key, order)
    return Slot(index, index == group.start)


def similarity_of(items: Sequence[Item], key: str, value: str) -> int:
    """Return how much an entry has in common with the one it resembles most."""
    present = ((item.key, text_of(item.value_node)) for item in items if item.key is not None)
    return max((similarity((key, value), other) for other in present), default=0)


def _similarity(items: Sequence[Item], group: _Group, key: str, value: str) -> int:
    return similarity_of(items[group.start : group.end], key, value)


def _keys(items: Sequence[Item]) -> list[str]:
    return [item.key for item in items if item.key is not None]


def _index_in(items: Sequence[Item], start: int, end: int, key: str, order: Order) -> int:
    plain = [n for n in range(start, end) if items[n].key is not None]
    # Entries without a key (`*others`) have no rank, but they count as places.
    place = sorted_index(_keys(items[start:end]), key, order)
    return plain[place] if place < len(plain) else end


def _goes_below(literal: Literal, groups: list[_Group], index: int, key: str, value: str) -> bool:
    """Return whether an entry in front of a group goes below the comments that head the group."""
    items = literal.items
    position = next((n for n, group in enumerate(groups) if group.start == index), None)
    if position is None:
        return False
    if position == 0:
        # The comment above the first entry is about that entry, so the new one goes above both.
        if own_line_comments(_gap(literal, 0)) and _names_entry(literal, 0):
            return False
        # It heads the group, or all of the literal where no other entry has a comment.
        return _comments_head(groups) or not any(
            own_line_comments(_gap(literal, n)) for n in range(1, len(items))
        )
    if groups[position].is_headed and not _comments_head(groups):
        return False
    here, above = (_similarity(items, groups[n], key, value) for n in (position, position - 1))
    return here > above


def _comments_head(groups: list[_Group]) -> bool:
    return any(group.is_headed and group.end - group.start > 1 for group in groups)


def _groups(literal: Literal) -> list[_Group]:
    starts = [0] if literal.items else []
    starts += [n for n in range(1, len(literal.items)) if _is_border(literal, n)]
    ends = [*starts[1:], len(literal.items)]
    return [
        _Group(start, end, _is_headed(literal, start))
        for start, end in zip(starts, ends, strict=False)
    ]


def _is_border(literal: Literal, index: int) -> bool:
    """Return whether a comment or an empty line parts an entry from the one above."""
    gap = _gap(literal, index)
    # Behind the last line end is only the entry's own indentation.
    is_apart = any(not row.strip() for row in NEWLINE.split(gap)[:-1])
    return is_apart or _is_headed(literal, index)


def _is_headed(literal: Literal, index: int) -> bool:
    return bool(own_line_comments(_gap(literal, index))) and not _names_entry(literal, index)


def _names_entry(literal: Literal, index: int) -> bool:
    key = literal.items[index].key
    comments = b" ".join(own_line_comments(_gap(literal, index))).decode("utf-8")
    # The key as a whole word: a comment on `math_debate` does not name `math`.
    return bool(key) and re.search(rf"(?<!\w){re.escape(key or '')}(?!\w)", comments) is not None


def _gap(literal: Literal, index: int) -> bytes:
    """Return the whole lines between an entry and the one above, or the bracket."""
    raw = literal.raw
    before = literal.items[index - 1].after if index else literal.inside
    tail = TAIL.match(raw, before)
    return raw[tail.end() : literal.items[index].start] if tail else b""
