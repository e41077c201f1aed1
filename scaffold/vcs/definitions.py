"""What happened to the definitions of files, and whether the calls that fitted them still do."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from scaffold.analysis.python.signatures import Signature, read_signature
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


def why_calls_break(old: Symbol, new: Symbol) -> str | None:
    """Return why callers break, where that is certain; None elsewhere."""
    # What a class takes is the head of its constructor, which is compared by itself.
    # A property is not called.
    if old.kind == "constant" or (old.kind == new.kind and old.kind in ("class", "property")):
        return None
    if old.kind != new.kind:
        return f"{new.name} is a {new.kind} and no {old.kind}"
    if old.head.startswith("async ") != new.head.startswith("async "):
        word = "a coroutine" if new.head.startswith("async ") else "no coroutine"
        return f"{new.name} is {word} now"
    before, after = _signature(old), _signature(new)
    return None if before is None or after is None else _why(new.name, before, after)


def _why(name: str, old: Signature, new: Signature) -> str | None:
    places, known = old.slots, {*old.slots, *old.names}
    added = sorted(_required(new) - known)
    if added:
        return f"{name} requires {_listed(added)}"
    required = sorted((_required(new) - _required(old)) & known)
    if required:
        return f"{name} has no default for {_listed(required)} any more"
    lost = sorted({*old.names} - {*new.names})
    if lost and not new.takes_any_keyword:
        return f"{name} takes no {_listed(lost)} any more"
    # Fewer places, or no `*args` any more.
    here = new.slots
    if not new.takes_any_place and (len(places) > len(here) or old.takes_any_place):
        return f"{name} takes fewer arguments by their place"
    # A new parameter in front of an old one moves the old one's place, be it optional.
    if here[: len(places)] != places:
        order = [each for each in here if each in places]
        if order == places or set(order) == set(places):
            return f"{name} takes its arguments in another order"
    return None


def _required(signature: Signature) -> set[str]:
    rows = (each for each in signature.parameters if not each.kind.startswith("var_"))
    return {each.name for each in rows if not each.has_default}


def _signature(symbol: Symbol) -> Signature | None:
    try:
        # A head is kept as text; put behind a name it parses again.
        node = ast.parse(f"def f{symbol.head.removeprefix('async ')}: ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    signature = read_signature(node)
    # The receiver by its usual names: a static method has none.
    has_receiver = {each.name for each in signature.parameters[:1]} & {"self", "cls"}
    return signature.bound() if symbol.kind == "method" and has_receiver else signature


def _listed(names: list[str]) -> str:
    return " and ".join(f"{each!r}" for each in names)
