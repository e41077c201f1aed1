"""Units that are registered without a record in the ledger, such as those that a package ships."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import read_entries
from scaffold.errors import LedgerError, ScaffoldError
from scaffold.syntax import parse
from scaffold.target.target import Target, registry_rules, unit_names
from scaffold.templating.answers import answers_by_name
from scaffold.templating.spec import RegistryRule, fill
from scaffold.transaction.digest import digest
from scaffold.units.ledger import LedgerFile, Todo, Unit
from scaffold.units.todos import find_todos


def registered_unit(target: Target, unit_id: str) -> Unit | None:
    """Return the registered unit of an id, or None.

    Raises:
        LedgerError: Several kinds have one of that name.
    """
    kind, _, name = unit_id.rpartition("/")
    found = [
        unit
        for each in target.kinds
        if (kind in ("", each) or each.startswith(kind + "-"))
        and (unit := _lookup(target, each, name)) is not None
    ]
    if len(found) > 1:
        ids = ", ".join(unit.id for unit in found)
        raise LedgerError(
            f"{unit_id!r} is ambiguous: {ids}", code="unit_ambiguous", hint="name one"
        )
    return found[0] if found else None


def _lookup(target: Target, kind_name: str, name: str) -> Unit | None:
    known = kind_name in target.catalogue.kind_names()
    if not known or not name.isidentifier():
        return None
    kind = target.catalogue.kind(kind_name)
    names = unit_names(target, kind, name)
    names |= answers_by_name(kind.answers, names)
    entry = _first_entry(registry_rules(target, kind), names)
    value = None if entry is None else _registered_value(target.root, entry)
    if entry is None or value is None:
        return None
    # The table of this repository has the unit's place; others only its name.
    symbol = value if ":" in value or kind_name == "dataset" else fill(kind.symbol, names)
    symbol = symbol or fill(kind.symbol, names)
    source = symbol.partition(":")[0].replace(".", "/") + ".py"
    # The package may be in src/; and a model's spec is not where its code is.
    if kind.writer or not (target.root / source).is_file():
        source = names.get("source", source)
    paths = [(source, "source"), (names.get("test", ""), "test")]
    files = tuple(
        LedgerFile(path, role, digest((target.root / path).read_bytes()))
        for path, role in paths
        if (target.root / path).is_file()
    )
    styles = _loader_types(target.root / source, name) if kind_name == "dataset" else ()
    answers = {"model_type": entry.key} if kind.writer else {}
    return Unit(
        kind_name, name, styles, answers, symbol=symbol, files=files,
        entries=(replace(entry, value=value),),
        todos=tuple(todo for file in files for todo in _marked(target.root, file.path)),
    )  # fmt: skip


def _marked(root: Path, path: str) -> list[Todo]:
    """Return every place that a file marks; no record has which are a template's."""
    try:
        found = find_todos(path, (root / path).read_text(encoding="utf-8-sig"))
    except (SyntaxError, ValueError):
        return []  # which the static level reports
    return [Todo(path, each.symbol, each.why) for each in found]


def _first_entry(rules: Sequence[RegistryRule], names: Mapping[str, str]) -> Entry | None:
    for rule in rules:
        # The other shapes may hold a unit without its name as a key.
        if rule.shape in ("dict", "list"):
            return Entry(rule.file, rule.table, rule.shape, fill(rule.key, names), "")
    return None


def _registered_value(root: Path, entry: Entry) -> str | None:
    """Return what a registry has for a key, "" for one that only lists it, None without it."""
    try:
        entries = read_entries((root / entry.file).read_bytes(), entry)
    except (OSError, ScaffoldError):
        return None
    return entries[entry.key] or "" if entry.key in entries else None


def _loader_types(path: Path, name: str) -> tuple[str, ...]:
    """Return the types that a dataset's module has loaders for."""
    try:
        tree = parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    pattern = re.compile(rf"get_{re.escape(name)}_(\w+)_dataset")
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(match[1] for each in functions if (match := pattern.fullmatch(each)))
