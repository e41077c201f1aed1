"""What happened to the definitions of files: new, gone, another head, another text, moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from scaffold.vcs.signatures import why_calls_break
from scaffold.vcs.symbols import Symbol

How = Literal["added", "removed", "head", "body", "moved"]


@dataclass(frozen=True)
class SymbolChange:
    """The change of one definition.

    Args:
        how: ``head`` where what callers see changed, ``body`` where only the rest did.
        old_path: The file that it stood in; None for a new one.
    """

    how: How
    path: str
    old_path: str | None
    old: Symbol | None
    new: Symbol | None
    role: str = ""

    @property
    def symbol(self) -> Symbol:
        """The definition as it is, or as it was where it is gone."""
        symbol = self.new or self.old
        assert symbol is not None, "one side has it"
        return symbol

    @property
    def name(self) -> str:
        """Its dotted name in its file."""
        return self.symbol.name

    @property
    def last_name(self) -> str:
        """The last part of its name, which is what other code writes."""
        return self.name.rpartition(".")[2]

    @property
    def breaks(self) -> str | None:
        """Why callers break, where that is certain; None elsewhere."""
        if self.new is None:
            return f"{self.name} is gone"
        is_head = self.old is not None and self.how == "head"
        return why_calls_break(self.old, self.new) if self.old is not None and is_head else None

    @property
    def place(self) -> str:
        """Its file and line, as ``path:line``."""
        return f"{self.path}:{self.symbol.start}"


def compare_symbols(
    path: str, old_path: str, before: Iterable[Symbol], after: Iterable[Symbol], role: str = ""
) -> Iterator[SymbolChange]:
    """Yield what became of each definition of a file; of a parent and its members the parent.

    Args:
        before: What it defined; of several of one name the last counts.
    """
    had, has = ({each.name: each for each in symbols} for symbols in (before, after))
    for name, symbol in has.items():
        old = had.get(name)
        if old is None:
            if not _comes_with_parent(name, has, had):
                yield SymbolChange("added", path, None, None, symbol, role)
        # A head that differs breaks callers whatever became of the body, so it is reported alone.
        elif (old.head, old.kind) != (symbol.head, symbol.kind):
            yield SymbolChange("head", path, old_path, old, symbol, role)
        elif old.digest != symbol.digest:
            yield SymbolChange("body", path, old_path, old, symbol, role)
    for name, symbol in had.items():
        if name not in has and not _comes_with_parent(name, had, has):
            yield SymbolChange("removed", path, old_path, symbol, None, role)


def _comes_with_parent(name: str, here: dict[str, Symbol], there: dict[str, Symbol]) -> bool:
    parent = name.rpartition(".")[0]
    return parent in here and parent not in there


def with_moves(found: list[SymbolChange]) -> tuple[SymbolChange, ...]:
    """Return the changes; what went from one file and came to another unchanged moved."""
    gone: dict[tuple[str, str], list[SymbolChange]] = defaultdict(list)
    for each in found:
        if each.how == "removed":
            # Name and text together: short bodies are often equal by chance.
            gone[each.last_name, each.symbol.digest].append(each)
    moved: set[int] = set()
    result: list[SymbolChange] = []
    for each in found:
        origins = gone.get((each.last_name, each.symbol.digest), [])
        if each.how == "added" and origins:
            # Each removal explains one addition; further copies are new.
            origin = origins.pop(0)
            moved.add(id(origin))
            each = SymbolChange("moved", each.path, origin.path, origin.old, each.new, each.role)
        result.append(each)
    # A removal that an addition explains is part of that move.
    return tuple(each for each in result if id(each) not in moved)
