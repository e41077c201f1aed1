"""The key changes of a diff: public symbols, moved files, dependencies, and what breaks callers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scaffold.vcs.changes import FileChange, new_text, old_text
from scaffold.vcs.dependencies import DependencyChange, dependency_changes
from scaffold.vcs.repository import Repository
from scaffold.vcs.roles import is_manifest, role_of
from scaffold.vcs.signatures import why_calls_break
from scaffold.vcs.symbols import Symbol, read_symbols, why_unread

Action = Literal["added", "removed", "changed", "moved"]

MAX_READ = 400
"""Files whose symbols are compared; in a larger diff the rest is named as not read."""


class SymbolChange(NamedTuple):
    """A public definition that was added, removed, moved, or has another head."""

    action: Action
    name: str
    kind: str
    path: str
    old_head: str | None
    new_head: str | None
    old_path: str | None = None
    breaks: str | None = None
    """Why callers break; None where they need not."""


class Unread(NamedTuple):
    """A source whose definitions are not known, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class KeyChanges:
    """The effect of a diff on public definitions, dependencies and files.

    Args:
        symbols: Public definitions, in the order of their files.
        moved: Files at another path, as pairs of the old one and the new one.
        dependencies: Packages that manifests ask for.
        unread: Sources whose definitions could not be compared.
    """

    symbols: tuple[SymbolChange, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    dependencies: tuple[DependencyChange, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def breaking(self) -> tuple[SymbolChange, ...]:
        """The changes that break callers."""
        return tuple(each for each in self.symbols if each.breaks)


def key_changes(repository: Repository, changes: Sequence[FileChange]) -> KeyChanges:
    """Return the key changes of a diff, whose contents git has stored."""
    before: dict[str, tuple[Symbol, ...]] = {}
    after: dict[str, tuple[Symbol, ...]] = {}
    pairs: dict[str, str] = {}
    unread: list[Unread] = []
    dependencies: list[DependencyChange] = []
    for number, change in enumerate(changes):
        texts = (old_text(repository, change), new_text(repository, change))
        # Manifests first: some are sources too, and all may add dependencies.
        if is_manifest(change.path):
            dependencies += dependency_changes(change.path, *texts)
        if not is_api(change) or change.is_submodule or change.is_binary:
            continue
        if _is_missing(change, *texts):
            unread.append(Unread(change.path, "its content is not in this clone"))
            continue
        read = [() if text is None else read_symbols(change.path, text) for text in texts]
        if number >= MAX_READ or None in read:
            why = why_unread(change.path) if number < MAX_READ else "the diff is too large"
            unread.append(Unread(change.path, why))
            continue
        before[change.path], after[change.path] = (each or () for each in read)
        # Both sides are kept under the new path, so that a renamed file is compared with itself.
        pairs[change.path] = change.old_path or change.path
    moved = [(c.old_path, c.new_path) for c in changes if c.status == "R"]
    return KeyChanges(
        tuple(_with_moves(list(_compared(before, after, pairs)), before, after)),
        tuple((old, new) for old, new in moved if old and new),
        tuple(dependencies),
        tuple(unread),
    )


def _is_missing(change: FileChange, old: str | None, new: str | None) -> bool:
    """Return whether a content of a file that is text is not in the clone, as in partial ones."""
    sides = ((old, change.old_id, change.old_mode), (new, change.new_id, change.new_mode))
    return any(
        # An id of zeros means no content; modes 100* are plain files.
        text is None and bool(name.strip("0")) and mode.startswith("100")
        for text, name, mode in sides
    )


def is_api(change: FileChange) -> bool:
    """Return whether a file's definitions are for others: a source, and not a private one."""
    name = change.path.rpartition("/")[2]
    is_private = name.startswith("_") and not name.startswith("__")
    is_shown = "examples" in change.path.lower().split("/")[:-1]
    return role_of(change.path) == "source" and not (is_private or is_shown)


def _compared(
    before: dict[str, tuple[Symbol, ...]],
    after: dict[str, tuple[Symbol, ...]],
    pairs: dict[str, str],
) -> Iterator[SymbolChange]:
    """Yield what became of each public definition within its own file."""
    for path, old_path in pairs.items():
        old, new = _public(before[path]), _public(after[path])
        for name, symbol in old.items():
            if name not in new and not _is_inside(name, old.keys() - new.keys()):
                why = f"{name} is gone"
                head = symbol.head
                yield SymbolChange(
                    "removed", name, symbol.kind, path, head, None, old_path, breaks=why
                )
        for name, symbol in new.items():
            was = old.get(name)
            if was is None:
                if not _is_inside(name, new.keys() - old.keys()):
                    yield SymbolChange("added", name, symbol.kind, path, None, symbol.head)
            # A body is nobody's concern here: only heads are visible to callers.
            elif (was.head, was.kind) != (symbol.head, symbol.kind):
                why = why_calls_break(was, symbol)
                yield SymbolChange(
                    "changed", name, symbol.kind, path, was.head, symbol.head, breaks=why
                )


def _public(symbols: tuple[Symbol, ...]) -> dict[str, Symbol]:
    """Return the public definitions by name; of a name defined twice, the last one counts."""
    return {each.name: each for each in symbols if each.is_public}


def _is_inside(name: str, others: set[str]) -> bool:
    """Return whether a definition comes and goes with its parent."""
    return name.rpartition(".")[0] in others


def _with_moves(
    rows: list[SymbolChange],
    before: dict[str, tuple[Symbol, ...]],
    after: dict[str, tuple[Symbol, ...]],
) -> Iterator[SymbolChange]:
    """Make one move of a definition that is gone here and new there with the same text."""
    gone = {
        (row.name, _digest(before[row.path], row.name)): row
        for row in rows
        if row.action == "removed"
    }
    new = {
        (row.name, _digest(after[row.path], row.name)): row for row in rows if row.action == "added"
    }
    for row in rows:
        texts = before if row.action == "removed" else after
        key = (row.name, _digest(texts[row.path], row.name))
        # The other half of the pair reports the move.
        if row.action == "removed" and key in new:
            continue
        if row.action == "added" and key in gone:
            old = gone[key].old_path
            # Whether the old place still offers it, by an import, is not known here.
            yield row._replace(action="moved", old_path=old)
        else:
            yield row


def _digest(symbols: tuple[Symbol, ...], name: str) -> str:
    return _public(symbols)[name].digest
