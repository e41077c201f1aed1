"""Units that are registered without a record in the ledger, such as those that a package ships."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scaffold.edit.shapes import read_entries
from scaffold.ledger import MadeEntry, MadeFile, Unit, digest
from scaffold.spec import LedgerError, ScaffoldError
from scaffold.target import Target, unit_names


def registered_unit(target: Target, unit_id: str) -> Unit | None:
    """Returns the registered unit of an id, or None.

    Raises:
        LedgerError: Several kinds have one of that name.
    """
    kind, _, name = unit_id.rpartition("/")
    found = [
        unit
        for each in target.kinds
        if kind in ("", each) and (unit := _lookup(target, each, name)) is not None
    ]
    if len(found) > 1:
        ids = ", ".join(unit.id for unit in found)
        raise LedgerError(
            f"{unit_id!r} is ambiguous: {ids}", code="unit_ambiguous", hint="name one"
        )
    return found[0] if found else None


def _lookup(target: Target, kind: str, name: str) -> Unit | None:
    registry = target.kinds[kind].registry
    table = MadeEntry(registry.file, registry.table, "dict", "", "")
    try:
        entries = read_entries((target.root / registry.file).read_bytes(), table)
    except (OSError, ScaffoldError):
        return None
    value = entries.get(name)
    if value is None:
        return None
    source = value.partition(":")[0].replace(".", "/") + ".py"
    names = unit_names(target, target.catalogue.kind(kind), name)
    paths = [(source, "source"), (names["test"], "test")]
    files = tuple(
        MadeFile(path, role, digest((target.root / path).read_bytes()))
        for path, role in paths
        if (target.root / path).is_file()
    )
    entry = MadeEntry(registry.file, registry.table, "dict", name, value)
    styles = _loader_types(target.root / source, name) if kind == "dataset" else ()
    return Unit(kind, name, styles, {}, symbol=value, files=files, entries=(entry,))


def _loader_types(path: Path, name: str) -> tuple[str, ...]:
    """Returns the types that a dataset's module has loaders for."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    pattern = re.compile(rf"get_{re.escape(name)}_(\w+)_dataset")
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(match[1] for each in functions if (match := pattern.fullmatch(each)))
