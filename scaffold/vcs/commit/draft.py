"""The draft of a commit message: what the diff and the branch show, and gaps for its author."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from scaffold.vcs.commit.conventional import SUBJECT_GAP, TYPE_GAP, WHY, Rules
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.definitions import SymbolChange
from scaffold.vcs.dependencies import DependencyChange

# A body of more points is not read; a head of more characters does not fit a line.
MAX_LISTED = 12
MAX_HEAD = 100
_VERBS = {
    "added": "add", "removed": "remove", "moved": "move", "head": "change",
}  # fmt: skip


def draft_message(
    key: KeyChanges, type_: str | None, scope: str | None, references: tuple[str, ...], rules: Rules
) -> str:
    """Return the message for a diff, with gaps for what is its author's to write.

    Args:
        type_: Its type; None where that is for the author to choose.
    """
    head = f"{type_ or TYPE_GAP}{f'({scope})' if scope else ''}: " if rules.is_conventional else ""
    points = [_wrapped(point, "- ", rules.max_body) for point in point_lines(key)]
    footers = [f"Refs: {each}" for each in references]
    parts = [head + SUBJECT_GAP, WHY, "\n".join(points), "\n".join(footers)]
    return "\n\n".join(part for part in parts if part) + "\n"


def point_lines(key: KeyChanges) -> Iterator[str]:
    """Yield the key changes as people read them, the longest lists cut."""
    yield from map(_printable, _point_lines(key))


def _point_lines(key: KeyChanges) -> Iterator[str]:
    for how in ("added", "removed", "head", "moved"):
        rows = [each for each in key.symbols if each.how == how]
        for row in rows[:MAX_LISTED]:
            yield _symbol_line(row)
        if len(rows) > MAX_LISTED:
            yield f"{_VERBS[how]} {len(rows) - MAX_LISTED} more public definitions"
    for old, new in key.moved[:MAX_LISTED]:
        yield f"move {old} to {new}"
    if len(key.moved) > MAX_LISTED:
        yield f"move {len(key.moved) - MAX_LISTED} more files"
    yield from map(dependency_line, key.dependencies)


def dependency_line(row: DependencyChange) -> str:
    """Return what happens to a package, as people read it."""
    if row.what == "added":
        return f"add the dependency {row.name} {row.new} ({row.path})".replace("  ", " ")
    if row.what == "removed":
        return f"drop the dependency {row.name} ({row.path})"
    return f"{row.name}: {row.old or 'any version'} -> {row.new or 'any version'} ({row.path})"


def _symbol_line(row: SymbolChange) -> str:
    thing = f"{_VERBS[row.how]} {row.symbol.kind} {row.name}"
    if row.how == "moved":
        return f"{thing} from {row.old_path} to {row.path}"
    if row.how == "head":
        heads = [_head(row.last_name, each.head) for each in (row.old, row.new) if each]
        return f"{thing}: {' -> '.join(heads)} ({row.path})"
    return f"{thing} ({row.path})"


def _head(name: str, head: str) -> str:
    text = f"{name}{head.removeprefix('async ')}"
    return text if len(text) <= MAX_HEAD else f"{text[: MAX_HEAD - 3]}..."


def _printable(text: str) -> str:
    """Return a text as one line of UTF-8, whatever bytes the names in it are made of."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(sign: str) -> str:
    # A surrogate is a byte that is no UTF-8, as from os.fsdecode.
    is_byte = 0xDC80 <= ord(sign) <= 0xDCFF
    return f"\\x{ord(sign) & 0xFF:02x}" if is_byte else ascii(sign)[1:-1]


def _wrapped(text: str, lead: str, width: int) -> str:
    # Paths and names must survive a copy, so neither long words nor hyphens are broken.
    return textwrap.fill(
        lead + text,
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# `feature/ABC-12-title`; then `fix/123-title`, `issue-45`, `gh-7`; and `release-1.2`, `v2.x`.
_TRACKER = re.compile(r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-[1-9][0-9]*)(?![0-9A-Za-z])")
_NUMBER = re.compile(
    r"(?:^|/)(?:#|gh-?|issues?[-_/]|fix(?:es)?[-_/#]|bugs?[-_/]|pr-)?([1-9][0-9]{0,6})(?=$|[-_/])",
    re.IGNORECASE,
)
_NO_ISSUE = re.compile(r"(?:^|/)(?:v?\d+(?:\.\d+|\.x)|\d{4}-\d{2}|20\d{2}[-_/]|release|dependabot)")


def branch_references(branch: str) -> tuple[str, ...]:
    """Return the issues in a branch's name, such as "#123" and "ABC-12".

    Versions, dates and the branches of robots are no issues.
    """
    tracked = _TRACKER.findall(branch)
    # A tracker's key is unmistakable; a bare number may be many things.
    if tracked:
        return tuple(dict.fromkeys(tracked))
    if _NO_ISSUE.search(branch):
        return ()
    match = _NUMBER.search(branch)
    return (f"#{match[1]}",) if match else ()
