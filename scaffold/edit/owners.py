"""CODEOWNERS: a line ``pattern @owner``.

``key`` is the pattern, ``value`` its owners, parted by spaces; ``table`` is empty, or the name of a
GitLab section. The last line that matches a file decides, so that a line has to stand behind every
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
    """A line with a pattern; ``column`` is where its owners begin, 0 where it has none."""

    number: int
    pattern: str
    owners: tuple[str, ...]
    column: int


@dataclass(frozen=True)
class _File:
    text: Text
    rules: tuple[_Line, ...]
    start: int

    def find(self, entry: Entry) -> list[_Line]:
        return [rule for rule in self.rules if rule.pattern == entry.key]


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the patterns with their owners; of a repeated pattern the last line counts."""
    rules = _locate(data, entry, context_of(entry)).rules
    return {rule.pattern: " ".join(rule.owners) for rule in rules}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the last line of this pattern names exactly these owners."""
    hits = _locate(data, entry, context_of(entry)).find(entry)
    return bool(hits) and _matches(hits[-1], entry)


def text_to_add(entry: Entry) -> str:
    """Return the line without alignment."""
    return f"{_escaped(entry.key)} {' '.join(entry.value.split())}".rstrip()


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add a line where it decides about the files of its pattern and about no others."""
    context = context_of(entry, text_to_add(entry))
    require_one_line(entry, context)
    # GitHub has no `!`, `[` begins a section, and a backslash would escape what follows it.
    if re.search(r"^!|^\[|\\", entry.key) or "#" in entry.value:
        raise context.refusal("registry_computed", 0, f"{entry.key!r} is not a pattern")
    found = _locate(data, entry, context)
    for rule in found.find(entry)[-1:]:
        if _matches(rule, entry):
            return Edit(data, rule.number + 1)
        reason = f"{entry.key!r} belongs to {' '.join(rule.owners) or 'nobody'}"
        raise context.refusal("registry_differs", rule.number + 1, reason)
    # The last match decides: the place of a line is part of its meaning, and sorting is not free.
    index = _index(found, entry.key, context)
    spans = [Span(rule.number, rule.number) for rule in found.rules]
    lines = found.text.lines
    line = line_for(spans, index, found.start, lambda at: lines[at].lstrip().startswith("#"))
    folders = [_folder(rule.pattern) for rule in found.rules[max(index - 1, 0) : index + 1]]
    if len(folders) == 2 and folders[0] != _folder(entry.key) == folders[1]:
        line = found.rules[index].number  # its group begins below the comment above it
    after = found.text.with_line(line, _line(found, index, entry))
    _check(found, after, index, entry, context)
    return Edit(after, line + 1)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the last line of the pattern out."""
    found = _locate(data, entry, context_of(entry))
    hits = found.find(entry)
    # A person may have changed the owners since; the pattern is still ours to remove.
    mine = [rule for rule in hits if _matches(rule, entry)] or hits
    return found.text.without_line(mine[-1].number) if mine else data


def _matches(rule: _Line, entry: Entry) -> bool:
    return rule.owners == tuple(entry.value.split())


# ---- reading -------------------------------------------------------------------------------------


def _locate(data: bytes, entry: Entry, context: Context) -> _File:
    text = read_text(data, context)
    heads = [n for n, line in enumerate(text.lines) if _SECTION.match(line)]
    # Lines above the first section belong to none.
    start, stop = 0, heads[0] if heads else len(text.lines)
    if entry.table:
        names = [(_SECTION.match(text.lines[n]) or [""] * 2)[1] for n in heads]
        if names.count(entry.table) != 1:
            reason = f"there is not exactly one section {entry.table!r}"
            raise context.refusal("registry_missing", 0, reason)
        at = names.index(entry.table)
        start, stop = heads[at] + 1, [*heads, len(text.lines)][at + 1]
    rules = [rule for n in range(start, stop) if (rule := _read_line(n, text.lines[n]))]
    head = start
    while head < stop and text.lines[head].lstrip().startswith("#"):
        head += 1
    # Without rules a line goes below the comments at the head; with rules these stay theirs.
    return _File(text, tuple(rules), start if rules else head)


def _read_line(number: int, line: str) -> _Line | None:
    found = _RULE.match(line)
    if found is None or found["pattern"].startswith("#"):
        return None
    owners = tuple(_COMMENT.sub("", found["rest"]).split())
    pattern = re.sub(r"\\(.)", r"\1", found["pattern"])
    return _Line(number, pattern, owners, found.start("rest") if owners else 0)


# ---- where a line goes ---------------------------------------------------------------------------


def _index(found: _File, pattern: str, context: Context) -> int:
    """Return which rule the new one becomes."""
    rules = found.rules
    relations = [_relation(pattern, rule.pattern) for rule in rules]
    # The bounds of the new line's place: behind all that covers it, in front of all that is inside
    # it.
    first = max((n + 1 for n, each in enumerate(relations) if each == "covers"), default=0)
    last = min((n for n, each in enumerate(relations) if each == "inside"), default=len(rules))
    unsure = [n for n, each in enumerate(relations) if each == "unsure"]
    # No line between them is behind all that covers it and in front of all that it covers.
    if unsure or first > last:
        line = rules[unsure[0] if unsure else last].number + 1
        reason = f"{pattern!r} could change who owns the files of another pattern"
        raise context.refusal("registry_computed", line, reason)
    return min(max(_wished(found, pattern), first), last)


def _wished(found: _File, pattern: str) -> int:
    """Return the place among the patterns of the same folder, or behind the nearest ones."""
    folder = _folder(pattern)
    siblings = [n for n, rule in enumerate(found.rules) if _folder(rule.pattern) == folder]
    if siblings:
        names = [found.rules[n].pattern for n in siblings]
        rank = list_index(names, pattern, least=1)
        return siblings[rank] if rank < len(siblings) else siblings[-1] + 1
    # No pattern of the same folder: behind the last of those that share most folders with it.
    shared = [_shared(_parts(pattern), _parts(rule.pattern)) for rule in found.rules]
    if not shared or not max(shared):
        return len(found.rules)
    return len(shared) - shared[::-1].index(max(shared))


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
    """Return a path without the ``**`` that says all that is below it."""
    return parts[:-1] if parts[-1:] == ["**"] else parts


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the parts that two paths have in common from the front."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _relation_anywhere(mine: str, other: str) -> Literal["apart", "covers"]:
    """Compare with a pattern that has no folder and matches at any depth.

    What it matches inside a folder of mine stays with whoever stands last: neither is above.
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


# ---- the line ------------------------------------------------------------------------------------


def _line(found: _File, index: int, entry: Entry) -> str:
    pattern, owners = _escaped(entry.key), " ".join(entry.value.split())
    folder = _folder(entry.key)
    siblings = [rule for rule in found.rules if _folder(rule.pattern) == folder and rule.column]
    siblings = siblings or [rule for rule in found.rules[max(index - 1, 0) :][:1] if rule.column]
    columns = {rule.column for rule in siblings}
    lines = found.text.lines
    # The two characters in front of the owners.
    gaps = [lines[rule.number][rule.column - 2 : rule.column] for rule in siblings]
    # Columns may be equal by chance; two spaces are there on purpose.
    if len(columns) == 1 and "  " in gaps and len(pattern) < max(columns):
        pattern = pattern.ljust(max(columns) - 1)
    return f"{pattern} {owners}".rstrip()


def _escaped(pattern: str) -> str:
    escaped = re.sub(r"([ \t])", r"\\\1", pattern)
    return "\\" + escaped if escaped.startswith("#") else escaped


def _check(found: _File, after: bytes, index: int, entry: Entry, context: Context) -> None:
    rules = [(rule.pattern, rule.owners) for rule in _locate(after, entry, context).rules]
    wanted = [(rule.pattern, rule.owners) for rule in found.rules]
    wanted.insert(index, (entry.key, tuple(entry.value.split())))
    if rules != wanted:
        raise context.refusal("registry_computed", 0, "the edited file reads differently")
