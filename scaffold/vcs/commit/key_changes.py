"""The key changes of a diff: public symbols, moved files, dependencies, and what breaks callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scaffold.vcs.changes import FileChange, new_text, old_text
from scaffold.vcs.definitions import (
    SymbolChange,
    compare_symbols,
    read_symbols,
    why_unread,
    with_moves,
)
from scaffold.vcs.dependencies import DependencyChange, dependency_changes
from scaffold.vcs.repository import Repository
from scaffold.vcs.roles import is_manifest, kind_of

MAX_READ = 400
"""Files whose symbols are compared; in a larger diff the rest is named as not read."""


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
        return tuple(each for each in self.symbols if each.breaks)

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": [symbol_json(each) for each in self.symbols],
            "moved": [{"from": old, "to": new} for old, new in self.moved],
            "dependencies": [each._asdict() for each in self.dependencies],
            "unread": [each._asdict() for each in self.unread],
        }


def symbol_json(change: SymbolChange) -> dict[str, Any]:
    """Return the change of a definition as the JSON report has it."""
    return {
        "action": "changed" if change.how == "head" else change.how,
        "name": change.name,
        "kind": change.symbol.kind,
        "path": change.path,
        "old_head": change.old.head if change.old and change.how != "moved" else None,
        "new_head": change.new.head if change.new else None,
        "old_path": change.old_path if change.how in ("removed", "moved") else None,
        "breaks": change.breaks,
    }


def key_changes(repository: Repository, changes: Sequence[FileChange]) -> KeyChanges:
    """Return the key changes of a diff, whose contents git has stored."""
    symbols: list[SymbolChange] = []
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
        old, new = ((one for one in each or () if one.is_public) for each in read)
        found = compare_symbols(change.path, change.old_path or change.path, old, new)
        # A body is nobody's concern here: only heads are visible to callers.
        symbols += [each for each in found if each.how != "body"]
    moved = [(c.old_path, c.new_path) for c in changes if c.status == "R"]
    return KeyChanges(
        with_moves(symbols),
        tuple((old, new) for old, new in moved if old and new),
        tuple(dependencies),
        tuple(unread),
    )


def _is_missing(change: FileChange, old: str | None, new: str | None) -> bool:
    """Return whether a content of a file that is text is not in the clone, as in partial ones."""
    sides = ((old, change.old_id, change.old_mode), (new, change.new_id, change.new_mode))
    # An id of zeros means no content; modes 100* are plain files.
    lost = (
        name.strip("0") and mode.startswith("100") for text, name, mode in sides if text is None
    )
    return any(lost)


def is_api(change: FileChange) -> bool:
    """Return whether a file's definitions are for others: a source, and not a private one."""
    name = change.path.rpartition("/")[2]
    is_private = name.startswith("_") and not name.startswith("__")
    is_shown = "examples" in change.path.lower().split("/")[:-1]
    return kind_of(change.path) == "source" and not (is_private or is_shown)
