"""The draft of a commit message: what the diff shows, and room for the author's reasons."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.conventional import WHY, Rules
from scaffold.vcs.commit.inference import Guess
from scaffold.vcs.commit.key_changes import KeyChanges, SymbolChange
from scaffold.vcs.dependencies import DependencyChange

# A body of more points is not read; a head of more characters does not fit a line.
MAX_LISTED = 12
MAX_HEAD = 100
_VERBS = {
    "added": "add", "removed": "remove", "moved": "move", "changed": "change",
}  # fmt: skip
_BY_STATUS = {"A": "add", "D": "remove", "R": "move", "C": "copy", "T": "change", "M": "change"}


@dataclass(frozen=True)
class Draft:
    """A message before its author has finished it.

    Args:
        header: The first line.
        points: The key changes, one a line.
        breaking: What breaks callers, one footer each.
        references: Issues that the branch names.
    """

    header: str
    points: tuple[str, ...]
    breaking: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    def text(self, width: int) -> str:
        """Return the message, lines at most so wide where they can be broken."""
        points = [_wrapped(point, "- ", width) for point in self.points]
        parts = [self.header, WHY, "\n".join(points), "\n".join(self._footers(width))]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _footers(self, width: int) -> Iterator[str]:
        for line in self.breaking:
            yield _wrapped(line, "BREAKING CHANGE: ", width)
        for each in self.references:
            yield f"Refs: {each}"


def draft_message(
    changes: Sequence[FileChange],
    key: KeyChanges,
    guesses: tuple[Guess, Guess],
    references: tuple[str, ...],
    rules: Rules,
) -> Draft:
    """Return the draft for a diff.

    Args:
        changes: The diff.
        key: Its key changes.
        guesses: Its type and its scope.
        references: Issues that the branch names.
        rules: What the repository sets of messages.
    """
    breaking = tuple(_breaking_lines(key))
    # Conventional Commits asks for the mark, the footer, or both.
    mark = "!" if breaking else ""
    scope = f"({guesses[1].word})" if guesses[1].word else ""
    head = f"{guesses[0].word}{scope}{mark}: "
    subject = _subject(changes, key, rules.max_subject - len(head))
    return Draft(head + subject, tuple(point_lines(key)), breaking, references)


def _breaking_lines(key: KeyChanges) -> Iterator[str]:
    for each in key.breaking[:MAX_LISTED]:
        yield str(each.breaks)
    if len(key.breaking) > MAX_LISTED:
        yield f"{len(key.breaking) - MAX_LISTED} more public definitions"


def point_lines(key: KeyChanges) -> Iterator[str]:
    """Yield the key changes as people read them, the longest lists cut."""
    yield from map(_printable, _point_lines(key))


def _point_lines(key: KeyChanges) -> Iterator[str]:
    for action in ("added", "removed", "changed", "moved"):
        rows = [each for each in key.symbols if each.action == action]
        for row in rows[:MAX_LISTED]:
            yield _symbol_line(row)
        if len(rows) > MAX_LISTED:
            yield f"{_VERBS[action]} {len(rows) - MAX_LISTED} more public definitions"
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
    if row.action == "moved":
        return f"move {row.kind} {row.name} from {row.old_path} to {row.path}"
    if row.action == "changed":
        heads = [_head(row.name, each) for each in (row.old_head, row.new_head)]
        return f"change {row.kind} {row.name}: {' -> '.join(heads)} ({row.path})"
    return f"{_VERBS[row.action]} {row.kind} {row.name} ({row.path})"


def _head(name: str, head: str | None) -> str:
    """Return a head as people write it; other languages than Python have the name in it."""
    # Python heads are parameters alone; those of other languages are whole lines.
    own = name.rpartition(".")[2]
    is_bare = not head or head.startswith(("(", ":", "async ("))
    text = f"{own}{(head or '').removeprefix('async ')}" if is_bare else str(head)
    return text if len(text) <= MAX_HEAD else f"{text[: MAX_HEAD - 3]}..."


def _subject(changes: Sequence[FileChange], key: KeyChanges, room: int) -> str:
    """Return the plainest sentence that fits: what happens to the first definitions, or files."""
    for action in ("added", "removed", "moved", "changed"):
        names = [each.name for each in key.symbols if each.action == action]
        if names:
            return _sentence(_VERBS[action], names, room)
    if key.dependencies:
        # A mix of added and changed packages is an update.
        is_new = {each.what for each in key.dependencies} == {"added"}
        verb = "add" if is_new else "update"
        return _sentence(verb, [each.name for each in key.dependencies], room)
    if not changes:
        return "change nothing"
    if len(changes) == 1 and changes[0].status == "R":
        ends = (changes[0].old_path or "", changes[0].path)
        text = f"move {' to '.join(_printable(each) for each in _told_apart(*ends))}"
        if len(text) <= room:
            return text
    verb = _BY_STATUS.get(changes[0].status, "change")
    # "add a.py, b.py and 3 more" where one verb fits all files, else "change".
    same = [each for each in changes if _BY_STATUS.get(each.status) == verb]
    names = [each.path.rpartition("/")[2] for each in (same if len(same) > 1 else changes)]
    return _sentence(verb if len(same) == len(changes) else "change", names, room)


def _told_apart(old: str, new: str) -> tuple[str, str]:
    """Return two paths by their last parts, and the second by its folder where those agree."""
    (_, _, old_name), (folder, _, new_name) = old.rpartition("/"), new.rpartition("/")
    return old_name, new_name if old_name != new_name else folder or "the top folder"


def _printable(text: str) -> str:
    """Return a text as one line of UTF-8, whatever bytes the names in it are made of."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(sign: str) -> str:
    # A surrogate is a byte that is no UTF-8, as from os.fsdecode.
    is_byte = 0xDC80 <= ord(sign) <= 0xDCFF
    return f"\\x{ord(sign) & 0xFF:02x}" if is_byte else ascii(sign)[1:-1]


def _sentence(verb: str, names: Sequence[str], room: int) -> str:
    names = list(map(_printable, dict.fromkeys(names)))
    # As many names as fit: three say more than one, and more than three read as a list.
    for count in (3, 2, 1):
        shown, rest = names[:count], len(names) - count
        tail = f" and {rest} more" if rest > 0 else ""
        if len(shown) > 1 and not tail:
            shown = [*shown[:-2], f"{shown[-2]} and {shown[-1]}"]
        text = f"{verb} {', '.join(shown)}{tail}"
        if len(text) <= room:
            return text
    return f"{verb} {len(names)} {'place' if len(names) == 1 else 'places'}"


def _wrapped(text: str, lead: str, width: int) -> str:
    # Paths and names must survive a copy, so neither long words nor hyphens are broken.
    return textwrap.fill(
        lead + text,
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
