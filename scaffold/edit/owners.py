"""CODEOWNERS: a line ``pattern @owner``.

``key`` is the pattern, ``value`` its owners, parted by spaces; ``table`` is empty, or the name of a
GitLab section. The last line that matches a file decides, so that a line has to come after every
pattern that covers its files too, and in front of every pattern inside its own folder. Between the
two it goes to the patterns of the same folder, in their order and with owners in their column.
Where no place is right, the line is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from scaffold.edit.entry import Entry
from scaffold.edit.lines import Lines, Span, list_index

# A pattern ends at a space without a backslash; `#` begins a comment unless it is inside a word.
_RULE = re.compile(
    r"(?P<indent>[ \t]*)(?P<pattern>(?:[^\s\\#]|\\.|(?<=\S)#)+)(?P<gap>[ \t]*)(?P<rest>.*)"
)
# Behind owners: `@team  # why`.
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
# GitLab: `[Docs]`, `^[Optional]`, `[Docs][2] @owner`.
_SECTION = re.compile(r"[ \t]*\^?\[([^\]]+)\]")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class _Line:
    """A pattern with its owners; ``column`` is where these begin, 0 where it has none."""

    key: str
    value: str
    number: int
    column: int


class Owners(Lines[_Line]):
    """The patterns of a file, or of one of its sections."""

    last_decides = True

    @staticmethod
    def text(entry: Entry) -> str:
        return f"{_escaped(entry.key)} {' '.join(entry.value.split())}".rstrip()

    def find(self) -> list[_Line]:
        text, entry = self.file, self.entry
        heads = [n for n, line in enumerate(text.lines) if _SECTION.match(line)]
        # Lines above the first section belong to none.
        start, stop = 0, heads[0] if heads else len(text.lines)
        if entry.table:
            names = [(_SECTION.match(text.lines[n]) or [""] * 2)[1] for n in heads]
            if names.count(entry.table) != 1:
                reason = f"there is not exactly one section {entry.table!r}"
                raise self.refusal("registry_missing", 0, reason)
            at = names.index(entry.table)
            start, stop = heads[at] + 1, [*heads, len(text.lines)][at + 1]
        rules = [rule for n in range(start, stop) if (rule := _read_line(n, text.lines[n]))]
        head = start
        while head < stop and text.lines[head].lstrip().startswith("#"):
            head += 1
        # Without rules a line goes below the comments at the head; with rules these stay theirs.
        self.start = start if rules else head
        return rules

    def line(self, item: _Line) -> int:
        return item.number + 1

    def matches(self, item: _Line) -> bool:
        return item.value.split() == self.entry.value.split()

    def differs(self, item: _Line) -> str:
        return f"{self.entry.key!r} belongs to {item.value or 'nobody'}"

    def check_entry(self) -> None:
        super().check_entry()
        # GitHub has no `!`, `[` begins a section, and a backslash would escape what follows it.
        if re.search(r"^!|^\[|\\", self.entry.key) or "#" in self.entry.value:
            raise self.refusal("registry_computed", 0, f"{self.entry.key!r} is not a pattern")

    def with_entry(self) -> bytes:
        # The last match decides: the place of a line is part of its meaning, and sorting is not
        # free.
        index = self._index()
        spans = [Span(rule.number, rule.number) for rule in self.items]
        line = self.line_for(spans, index, self.start)
        folders = [_folder(rule.key) for rule in self.items[max(index - 1, 0) : index + 1]]
        if len(folders) == 2 and folders[0] != _folder(self.entry.key) == folders[1]:
            line = self.items[index].number  # its group begins below the comment above it
        return self.file.with_line(line, self._written(index))

    def without(self, hits: list[_Line]) -> bytes:
        return self.file.without_line(hits[-1].number)

    def said(self, without: _Line | None = None) -> object:
        return [(rule.key, rule.value) for rule in self.items if rule is not without]

    def _index(self) -> int:
        """Return which rule the new one becomes."""
        rules, pattern = self.items, self.entry.key
        relations = [_relation(pattern, rule.key) for rule in rules]
        # The bounds of the new line's place: behind all that covers it, in front of all inside it.
        first = max((n + 1 for n, each in enumerate(relations) if each == "covers"), default=0)
        last = min((n for n, each in enumerate(relations) if each == "inside"), default=len(rules))
        unsure = [n for n, each in enumerate(relations) if each == "unsure"]
        # No line between them is behind all that covers it and in front of all that it covers.
        if unsure or first > last:
            line = rules[unsure[0] if unsure else last].number + 1
            reason = f"{pattern!r} could change who owns the files of another pattern"
            raise self.refusal("registry_computed", line, reason)
        return min(max(self._wished(), first), last)

    def _wished(self) -> int:
        """Return the place among the patterns of the same folder, or behind the nearest ones."""
        pattern = self.entry.key
        folder = _folder(pattern)
        siblings = [n for n, rule in enumerate(self.items) if _folder(rule.key) == folder]
        if siblings:
            names = [self.items[n].key for n in siblings]
            rank = list_index(names, pattern, least=1)
            return siblings[rank] if rank < len(siblings) else siblings[-1] + 1
        # No pattern of the same folder: behind the last of those that share most folders with it.
        shared = [_shared(_parts(pattern), _parts(rule.key)) for rule in self.items]
        if not shared or not max(shared):
            return len(self.items)
        return len(shared) - shared[::-1].index(max(shared))

    def _written(self, index: int) -> str:
        pattern, owners = _escaped(self.entry.key), " ".join(self.entry.value.split())
        folder = _folder(self.entry.key)
        siblings = [rule for rule in self.items if _folder(rule.key) == folder and rule.column]
        siblings = siblings or [rule for rule in self.items[max(index - 1, 0) :][:1] if rule.column]
        columns = {rule.column for rule in siblings}
        lines = self.file.lines
        # The two characters in front of the owners.
        gaps = [lines[rule.number][rule.column - 2 : rule.column] for rule in siblings]
        # Columns may be equal by chance; two spaces are there on purpose.
        if len(columns) == 1 and "  " in gaps and len(pattern) < max(columns):
            pattern = pattern.ljust(max(columns) - 1)
        return f"{pattern} {owners}".rstrip()


def _read_line(number: int, line: str) -> _Line | None:
    found = _RULE.match(line)
    if found is None or found["pattern"].startswith("#"):
        return None
    owners = " ".join(_COMMENT.sub("", found["rest"]).split())
    pattern = re.sub(r"\\(.)", r"\1", found["pattern"])
    return _Line(pattern, owners, number, found.start("rest") if owners else 0)


def _relation(mine: str, other: str) -> Literal["apart", "covers", "inside", "unsure"]:
    """Return how the files of another pattern lie to those of mine; unknown overlap "covers"."""
    parts, others = _parts(mine), _parts(other)
    if _is_anywhere(other):
        return _relation_anywhere(mine, others[-1] if others else "*")
    # `docs/` and `docs/**` mean the same files, a pattern at any depth perhaps all of them.
    if _is_anywhere(mine) or _without_rest(parts) == _without_rest(others):
        return "unsure"
    fixed, others_fixed = _fixed(parts), _fixed(others)
    # They differ in front of any wildcard: no file is below both.
    if _shared(fixed, others_fixed) < min(len(fixed), len(others_fixed)):
        return "apart"
    is_other_literal = len(others_fixed) == len(others)
    if len(fixed) < len(parts):
        # A wildcard of mine against a folder above it is clear; against anything deeper it is not.
        return "covers" if is_other_literal and len(others) <= len(fixed) else "unsure"
    # Mine has no wildcard, and the other begins with all of its parts.
    if len(others_fixed) >= len(fixed):
        return "inside"
    return "covers" if is_other_literal else _relation_wild(parts, others)


def _relation_wild(
    parts: Sequence[str], others: Sequence[str]
) -> Literal["apart", "covers", "unsure"]:
    """Compare a path with a pattern that has wildcards above it, part by part."""
    for part, other in zip(parts, others, strict=False):
        if other == "**":
            return "covers"
        if not fnmatchcase(part, other):
            return "apart"
    # A longer pattern takes some files below mine, and which ones depends on what lies there.
    return "covers" if len(others) <= len(parts) else "unsure"


def _without_rest(parts: list[str]) -> list[str]:
    """Return a path without the ``**`` for all that is below it."""
    return parts[:-1] if parts[-1:] == ["**"] else parts


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the parts that two paths have in common from the front."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _relation_anywhere(mine: str, other: str) -> Literal["apart", "covers"]:
    """Compare with a pattern that has no folder and matches at any depth.

    What it matches inside a folder of mine stays with whoever is last: neither is above.
    """
    # A wildcard of mine may cover a name that the other matches.
    is_above = any(fnmatchcase(part, other) or _WILD.search(part) for part in _parts(mine))
    return "covers" if is_above else "apart"


def _is_anywhere(pattern: str) -> bool:
    return "/" not in pattern.rstrip("/") or pattern.startswith("**/")


def _parts(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part]


def _fixed(parts: Sequence[str]) -> list[str]:
    """Return the parts in front of the first wildcard."""
    wild = next((n for n, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return list(parts[:wild])


def _folder(pattern: str) -> str:
    """Return the folder that a pattern is directly in; patterns at any depth share one."""
    return "**" if _is_anywhere(pattern) else "/".join(_parts(pattern)[:-1])


def _escaped(pattern: str) -> str:
    escaped = re.sub(r"([ \t])", r"\\\1", pattern)
    return "\\" + escaped if escaped.startswith("#") else escaped
