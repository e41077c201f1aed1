"""Constructors that a data class gets for its fields: whose places mean other fields now."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.signatures import Signature
from scaffold.vcs.definitions import SymbolChange
from scaffold.vcs.review.changed_file import ChangedFile


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
        if each.kind == "keyword_only" and "*" not in rows:
            rows.append("*")
        rows.append(f"{each.name}=..." if each.has_default else each.name)
    return f"({', '.join(rows)})"
