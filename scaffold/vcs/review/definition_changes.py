"""Which definitions a change touches, and how: new, gone, another head, another body, moved."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Literal

from scaffold.syntax import parse
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.signatures import why_calls_break
from scaffold.vcs.symbols import Symbol

How = Literal["added", "removed", "head", "body", "moved"]


@dataclass(frozen=True)
class SymbolChange:
    """The change of one definition.

    Args:
        how: ``head`` where what callers see changed, ``body`` where only the rest did.
        path: The file that defines it, or did.
        old_path: The file that it stood in; None for a new one.
        old: The definition before.
        new: The definition after.
        role: The role of its file.
    """

    how: How
    path: str
    old_path: str | None
    old: Symbol | None
    new: Symbol | None
    role: str

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
        """Why calls that fitted break; None where they need not."""
        if self.old is None or self.new is None or self.how != "head":
            return None
        return why_calls_break(self.old, self.new)

    @property
    def place(self) -> str:
        """Its file and line, as ``path:line``."""
        return f"{self.path}:{self.symbol.start}"


def symbol_changes(files: Sequence[ChangedFile]) -> tuple[SymbolChange, ...]:
    """Return what happened to the definitions of changed files, file by file."""
    found = [each for file in files for each in _changes_of(file)]
    return tuple(_with_moves(found))


def _changes_of(file: ChangedFile) -> Iterator[SymbolChange]:
    old, new = file.old_symbols, file.new_symbols
    if old is None or new is None:
        return
    before, after = _by_name(old), _by_name(new)
    touched = {symbol.name for symbol in _touched(file)}
    for name, symbol in after.items():
        earlier = before.get(name)
        if earlier is None:
            if not _has_parent(name, after, before):
                yield _change("added", file, None, symbol)
        # A head that differs breaks callers whatever became of the body, so it is reported alone.
        elif earlier.head != symbol.head or earlier.kind != symbol.kind:
            yield _change("head", file, earlier, symbol)
        # A digest covers docstrings too, which no caller and no test depends on.
        elif (
            earlier.digest != symbol.digest
            and name in touched
            and _code(file.old_text, earlier) != _code(file.new_text, symbol)
        ):
            yield _change("body", file, earlier, symbol)
    for name, symbol in before.items():
        if name not in after and not _has_parent(name, before, after):
            yield _change("removed", file, symbol, None)


def _has_parent(name: str, here: dict[str, Symbol], there: dict[str, Symbol]) -> bool:
    """Return whether the parent of a definition came or went with it: one is reported."""
    parent = name.rpartition(".")[0]
    return parent in here and parent not in there


def _touched(file: ChangedFile) -> Iterator[Symbol]:
    """Yield the innermost definitions of the lines of code that changed, on both sides."""
    for side in ("old", "new"):
        for block in file.blocks(side):
            for number in range(block.start, block.start + len(block.lines)):
                symbol = file.symbol_around(side, number)
                if symbol is not None and block.lines[number - block.start].strip():
                    yield symbol


def _code(text: str | None, symbol: Symbol) -> str:
    """Return a definition without its docstrings; as it is where it is no Python of its own."""
    rows = (text or "").split("\n")[symbol.start - 1 : symbol.end]
    source = dedent("\n".join(rows))
    try:
        tree = parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A string that is a statement is for readers, wherever it is.
            node.value.value = None
    return ast.dump(tree)


def _by_name(symbols: Sequence[Symbol]) -> dict[str, Symbol]:
    """Return definitions by name; of several of one name the first, as a reader meets them."""
    found: dict[str, Symbol] = {}
    for symbol in symbols:
        found.setdefault(symbol.name, symbol)
    return found


def _change(how: How, file: ChangedFile, old: Symbol | None, new: Symbol | None) -> SymbolChange:
    return SymbolChange(
        how, file.path, None if old is None else file.path_on("old"), old, new, file.role
    )


def _with_moves(found: list[SymbolChange]) -> Iterator[SymbolChange]:
    """Yield the changes; what went from one file and came to another unchanged moved."""
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
    return (each for each in result if id(each) not in moved)
