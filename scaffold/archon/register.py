"""Registry lines of a unit that stands in the target already, and what its proof has come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scaffold.edit.entry import Entry
from scaffold.errors import RegistryError
from scaffold.report import Registration
from scaffold.transaction.apply import session
from scaffold.transaction.change import Change
from scaffold.units.ledger import Unit, dump_unit, record_path
from scaffold.units.registries import RegistryEdits


def register(
    root: Path, unit: Unit, entries: Sequence[Entry], proof: str, *, dry_run: bool = False
) -> tuple[list[Change], list[Registration]]:
    """Add the registry lines of a unit and remember its proof, in one step.

    Args:
        root: The target's folder.
        unit: What stands there.
        entries: The lines it needs.
        proof: "proven" or "unproven".
        dry_run: Whether to write nothing.

    Returns:
        What is written, and the lines.

    Raises:
        RegistryError: A registry cannot be edited without risk.
    """
    if dry_run:
        return _planned(root, unit, entries, proof)
    with session(root, f"verify {unit.id}") as opened:
        changes, lines = _planned(root, unit, entries, proof)
        opened.apply(changes)
    return changes, lines


def _planned(
    root: Path, unit: Unit, entries: Sequence[Entry], proof: str
) -> tuple[list[Change], list[Registration]]:
    edits = RegistryEdits(lambda entry: _read(root, entry.file))
    for entry in entries:
        edits.add(entry)
    record = record_path(unit.kind, unit.name)
    before = _read(root, record)
    after = dump_unit(unit._replace(entries=tuple(entries), proof=proof))
    changes = edits.changes()
    if before != after:
        changes.append(Change(record, "record", before, after))
    return changes, edits.registered


def _read(root: Path, file: str) -> bytes:
    try:
        return (root / file).read_bytes()
    except OSError as error:
        raise RegistryError(
            f"{file} cannot be read: {error.strerror}", code="registry_missing"
        ) from error
