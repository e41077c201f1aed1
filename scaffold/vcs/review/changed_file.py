"""A changed file: its role, its lines on both sides, its definitions."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from textwrap import dedent
from typing import Literal, NamedTuple

from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.signatures import Signature
from scaffold.syntax import parse
from scaffold.vcs.changes import FileChange
from scaffold.vcs.definitions import Symbol, SymbolChange, compare_symbols, read_symbols, symbol_at
from scaffold.vcs.review.revisions import Comparison
from scaffold.vcs.roles import Role, is_program, role_of

Side = Literal["old", "new"]


class Block(NamedTuple):
    """Adjacent lines that were removed, or added."""

    start: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ChangedFile:
    """One changed file.

    Args:
        old_text: What it held; None where that was no text, or nothing.
    """

    change: FileChange
    role: str
    old_text: str | None
    new_text: str | None

    @property
    def path(self) -> str:
        """Its path; of a deleted file the old one."""
        return self.change.path

    def path_on(self, side: Side) -> str:
        """Return its path on one side; that of the other one where it is not there."""
        path = self.change.old_path if side == "old" else self.change.new_path
        return path or self.path

    def blocks(self, side: Side) -> Iterator[Block]:
        """Yield what was taken out of the old side, or put into the new one."""
        for hunk in self.change.hunks:
            lines = hunk.removed if side == "old" else hunk.added
            if lines:
                yield Block(hunk.old_start if side == "old" else hunk.new_start, lines)

    @cached_property
    def old_symbols(self) -> tuple[Symbol, ...] | None:
        """The definitions before; none of a new file, None where they are not read."""
        return self._read("old", self.old_text)

    @cached_property
    def new_symbols(self) -> tuple[Symbol, ...] | None:
        """The definitions after; none of a deleted file, None where they are not read."""
        return self._read("new", self.new_text)

    @property
    def is_unread_source(self) -> bool:
        """Whether it is a program whose definitions are not known on one side."""
        unread = self.old_symbols is None or self.new_symbols is None
        # A page or a picture has no definitions to read.
        return unread and is_program(self.path)

    def symbol_changes(self) -> Iterator[SymbolChange]:
        """Yield what became of its definitions; nothing where one side is not read."""
        old, new = self.old_symbols, self.new_symbols
        if old is None or new is None:
            return
        touched = set(self._touched())
        for each in compare_symbols(self.path, self.path_on("old"), old, new, self.role):
            # On docstrings no caller and no test depends.
            sides = ((self.old_text, each.old), (self.new_text, each.new))
            codes = (_code(text or "", symbol) for text, symbol in sides if symbol is not None)
            if each.how != "body" or (each.name in touched and len({*codes}) > 1):
                yield each

    def _touched(self) -> Iterator[str]:
        """Yield the innermost definitions of the lines of code that changed, on both sides."""
        sides = (self.blocks("old"), self.old_symbols), (self.blocks("new"), self.new_symbols)
        for blocks, symbols in sides:
            for block in blocks:
                for number, line in enumerate(block.lines, block.start):
                    symbol = symbol_at(symbols or (), number) if line.strip() else None
                    if symbol is not None:
                        yield symbol.name

    def _read(self, side: Side, text: str | None) -> tuple[Symbol, ...] | None:
        if text is None:
            # No file means no definitions; a file without text means unknown ones.
            is_there = self.change.old_path if side == "old" else self.change.new_path
            return None if is_there else ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            return read_symbols(self.path_on(side), text)


def _code(text: str, symbol: Symbol) -> str:
    """Return a definition without its docstrings; as it is where a text in it is in the way."""
    source = dedent("\n".join(text.split("\n")[symbol.start - 1 : symbol.end]))
    try:
        tree = parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A string that is a statement is for readers, wherever it is.
            node.value.value = None
    return ast.dump(tree)


def read_changed_files(comparison: Comparison, roles: tuple[Role, ...]) -> tuple[ChangedFile, ...]:
    found: list[ChangedFile] = []
    for change in comparison.changes:
        old = comparison.old.text(change.old_path) if change.old_path else None
        new = comparison.new.text(change.new_path) if change.new_path else None
        text = new if new is not None else old
        found.append(ChangedFile(change, role_of(change.path, text, roles), old, new))
    return tuple(found)


def shifted_constructors(
    file: ChangedFile, before: PythonIndex, after: PythonIndex
) -> Iterator[SymbolChange]:
    """Yield the changes of constructors that no file writes, where a place has another field."""
    old_symbols = {each.name: each for each in file.old_symbols or ()}
    names = {each.name for each in file.new_symbols or ()}
    for new in file.new_symbols or ():
        old, name = old_symbols.get(new.name), f"{new.name}.__init__"
        if new.kind != "class" or old is None or old.digest == new.digest:
            continue
        if name in names or name in old_symbols:
            continue  # one that is written is compared as any method
        was = before.signature_of(before.find_in(file.path_on("old"), old.name))
        now = after.signature_of(after.find_in(file.path_on("new"), new.name))
        if was is None or now is None or now.slots[: len(was.slots)] == was.slots:
            continue
        old = old._replace(name=name, kind="method", head=_head(was))
        new = new._replace(name=name, kind="method", head=_head(now))
        yield SymbolChange("head", file.path, file.path_on("old"), old, new, file.role)


def _head(signature: Signature) -> str:
    rows = ["self"]
    for each in signature.parameters:
        rows += ["*"] if each.kind == "keyword_only" and "*" not in rows else []
        rows.append(f"{each.name}=..." if each.has_default else each.name)
    return f"({', '.join(rows)})"
