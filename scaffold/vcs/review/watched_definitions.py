"""The definitions whose users a review looks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.vcs.definitions import SymbolChange

_CONSTRUCTORS = ("__init__", "__new__")

Key = tuple[str, str]
"""A definition: its file and its dotted name there."""


class Watched(NamedTuple):
    """One definition whose users are sought.

    Args:
        path: Its file; of one that is gone, the file that lacks it now.
        old_path: The file that it stood in before; None for a new one.
        calls_only: Whether calls alone count: of a class whose constructor changed.
    """

    path: str
    name: str
    old_path: str | None = None
    is_gone: bool = False
    calls_only: bool = False

    @property
    def key(self) -> Key:
        """The file and the name."""
        return self.path, self.name

    @property
    def word(self) -> str:
        """What other code writes to use it."""
        return self.name.rpartition(".")[2]

    @property
    def companion(self) -> str:
        """What code that uses it mostly names as well: its class, or its module."""
        owner = self.name.rpartition(".")[0].rpartition(".")[2]
        return owner or _stem(self.path)


def watched_definitions(changes: Sequence[SymbolChange]) -> tuple[Watched, ...]:
    """Return what users are sought of: what changed, came or went, with constructors' classes.

    Of a new attribute none are: what is new breaks nobody.
    """
    found: dict[Key, Watched] = {}
    for change in changes:
        is_attribute = change.symbol.kind == "constant" and "." in change.name
        if is_attribute and change.how in ("added", "body"):
            continue
        for each in _wanted(change):
            known = found.get(each.key)
            # The definition itself is more exact than the class of its constructor.
            if known is None or known.calls_only:
                found[each.key] = each
    return tuple(found.values())


def _wanted(change: SymbolChange) -> Iterator[Watched]:
    owner, _, last = change.name.rpartition(".")
    if change.how == "moved":
        assert change.old_path is not None, "it stood somewhere"
        assert change.old is not None, "it stood there by a name"
        # Whoever still takes it from the old place fails, so that is watched as gone.
        yield Watched(change.old_path, change.old.name, change.old_path, is_gone=True)
    if not (last.startswith("__") and last.endswith("__")):
        is_gone = change.how == "removed"
        yield Watched(change.path, change.name, change.old_path, is_gone)
    # A field of a dataclass is a parameter of its constructor.
    makes = last in _CONSTRUCTORS or change.symbol.kind == "constant"
    if owner and makes:
        yield Watched(change.path, owner, change.old_path or change.path, calls_only=True)


def _stem(path: str) -> str:
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return folders[-1] if stem == "__init__" and folders else stem
