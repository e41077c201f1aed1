"""A registry in a file, read for one of its entries: what all shapes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from scaffold.edit.entry import Entry
from scaffold.edit.refusal import Context
from scaffold.errors import RegistryError


@dataclass(frozen=True)
class Edit:
    """The outcome of an edit: the file's bytes, and the line of the entry (from 1)."""

    data: bytes
    line: int


class Keyed(Protocol):
    """What a registry holds under one key; both are None where they are no plain text."""

    @property
    def key(self) -> str | None: ...
    @property
    def value(self) -> str | None: ...


K = TypeVar("K", bound=Keyed)


class Table(ABC, Generic[K]):
    """The items of a registry, and the one that an entry means.

    A shape finds the items, and how one goes in and out. Nothing else of the file changes, and
    what cannot be edited without risk is refused with a `RegistryError`.

    Args:
        data: The file's bytes.
        entry: File, table, key and value.
        by_hand: What a person would add, for the hints of refusals.
    """

    last_decides = False
    """Whether of several items of a key the last one counts, as where one replaces the other."""

    def __init__(self, data: bytes, entry: Entry, by_hand: str = "") -> None:
        self.data = data
        self.entry = entry
        self.by_hand = by_hand
        self.context = self.make_context()
        self.items = self.read()

    def make_context(self) -> Context:
        """Return what refusals name."""
        return Context(self.entry.file, self.entry.table or self.entry.file, self.by_hand)

    @staticmethod
    @abstractmethod
    def text(entry: Entry) -> str:
        """Return the text that a person would add by hand."""

    @abstractmethod
    def read(self) -> Sequence[K]:
        """Find the registry and return its items, in the order of the file."""

    @abstractmethod
    def line(self, item: K) -> int:
        """Return the line of an item, from 1."""

    @abstractmethod
    def with_entry(self) -> bytes:
        """Return the file with the entry, which is not there yet."""

    @abstractmethod
    def without(self, hits: list[K]) -> bytes:
        """Return the file without the first of some items of the entry's key."""

    def check_entry(self) -> None:
        """Refuse an entry that can be no item, or a table that none can be compared with."""

    def matches(self, item: K) -> bool:
        """Return whether an item of the entry's key has its very value."""
        return item.value == self.entry.value

    def differs(self, item: K) -> str:
        """Return why the entry is refused where its key has another value."""
        return f"{self.entry.key!r} has another value"

    def said(self, without: K | None = None) -> object:
        """Return what the file holds, apart from an item; equal before and after an edit."""
        return None

    def unsound(self) -> tuple[int, str]:
        """Return the line and the reason of a refusal where an edit does not come out as meant."""
        return 0, "the edited file reads differently"

    def hits(self) -> list[K]:
        """Return the items of the entry's key."""
        return [item for item in self.items if item.key == self.entry.key]

    def hit(self) -> K | None:
        """Return the item that counts for the entry's key, None where there is none."""
        hits = self.hits()[::-1] if self.last_decides else self.hits()
        same = [] if self.last_decides else [item for item in hits if self.matches(item)]
        return next(iter(same or hits), None)

    def refusal(self, code: str, line: int, reason: str) -> RegistryError:
        """Return the error for a reason and the line that shows it; 0 names no line."""
        return self.context.refusal(code, line, reason)

    def entries(self) -> dict[str, str | None]:
        """Return every key with its value, None where that is no plain text."""
        return {item.key: item.value for item in self.items if item.key is not None}

    def has(self) -> bool:
        """Return whether the entry is there, with this very value."""
        hit = self.hit()
        return hit is not None and self.matches(hit)

    def added(self) -> Edit:
        """Add the entry; the same bytes come back where it is there already."""
        self.check_entry()
        hit = self.hit()
        if hit is not None and self.matches(hit):
            return Edit(self.data, self.line(hit))
        if hit is not None:
            raise self.refusal("registry_differs", self.line(hit), self.differs(hit))
        edited = self.with_entry()
        # What the public functions promise is what a person relies on, so it is tried out.
        try:
            after = type(self)(edited, self.entry, self.by_hand)
            item = after.hit()
            is_back = after.has() and after.removed() == self.data
            if item is not None and is_back and after.said(item) == self.said():
                return Edit(edited, after.line(item))
        except RegistryError:
            pass
        raise self.refusal("registry_computed", *self.unsound())

    def removed(self) -> bytes:
        """Take the entry back by its key, whatever its value; the same bytes without it."""
        hits = self.hits()
        # Of two items of a key the one that the tool wrote goes, not a person's.
        same = [item for item in hits if self.matches(item)]
        return self.without(same or hits) if hits else self.data
