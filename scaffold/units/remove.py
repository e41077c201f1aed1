"""What taking a unit back comes to: which files go, which stay, and the registries without it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import ConflictError, RegistryError, RequestError
from scaffold.report import Report
from scaffold.transaction.backup import back_up
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest
from scaffold.units.context import Options
from scaffold.units.ledger import (
    ATTRIBUTES,
    ATTRIBUTES_TEXT,
    Unit,
    base_path,
    dump_unit,
    find_unit,
    record_path,
    sound_units,
)
from scaffold.units.registries import RegistryEdits
from scaffold.units.status import FileStatus, file_status
from scaffold.units.work import at_work


@dataclass(frozen=True)
class RemovePlan:
    """Everything that taking a unit back comes to.

    Args:
        changes: Files to delete or edit, the tool's own records last.
        kept: Edited files that stay.
        lost: Edited files that are deleted because somebody said so.
        changed: Registry lines that say something else by now, and stay.
    """

    changes: tuple[Change, ...]
    kept: tuple[str, ...]
    lost: tuple[str, ...]
    changed: tuple[Entry, ...]


def plan_remove(root: Path, unit: Unit, units: Iterable[Unit], *, discard: bool) -> RemovePlan:
    """Work out how a unit is taken back; nothing is written.

    Args:
        root: The target's folder.
        unit: What is taken back.
        units: Everything that was made there.
        discard: Whether edited files are deleted too.

    Raises:
        ConflictError: Another unit needs one of its files.
        RegistryError: A registry cannot be edited; the hint names the line to delete.
    """
    others = [other for other in units if other.id != unit.id]
    _check_not_needed(unit, others)
    states = _states(root, unit, others)
    edited = tuple(path for path, state in states.items() if state == "edited")
    # A missing file is neither deleted nor kept.
    deleted = ("untouched", "edited") if discard else ("untouched",)
    files = [
        Change(path, "deleted", (root / path).read_bytes(), None)
        for path, state in states.items()
        if state in deleted
    ]
    former = _as_before(root, unit)
    entries, changed = _without_entries(root, unit, {change.path for change in former})
    settings, passed_on = _without_settings(root, unit, others)
    records = _records(root, unit, is_last=not others)
    lost = edited if discard else ()
    return RemovePlan(
        (*files, *former, *entries, *settings, *records, *passed_on),
        () if discard else edited,
        lost,
        changed,
    )


def _check_not_needed(unit: Unit, others: Iterable[Unit]) -> None:
    own = {file.path for file in unit.files}
    for other in others:
        needed = own & {entry.file for entry in other.entries}
        if needed:
            raise ConflictError(
                f"{other.id} needs {', '.join(sorted(needed))}, which {unit.id} brought",
                code="unit_needed",
                hint=f"first: scaffold remove {other.id}",
            )


def _states(root: Path, unit: Unit, others: Iterable[Unit]) -> dict[str, FileStatus]:
    """Return what became of the files of this unit alone; what two made goes with the last."""
    # Such as an `__init__.py` that both need.
    shared = {file.path for other in others for file in other.files}
    own = [file for file in unit.files if file.path not in shared]
    return {file.path: file_status(root, unit, file) for file in own}


def _as_before(root: Path, unit: Unit) -> list[Change]:
    """Return the registries that a formatter laid out again for the unit, if nobody wrote since."""
    changes: list[Change] = []
    for file in unit.reformatted:
        place, base = root / file.path, root / base_path(unit.kind, unit.name, file.path)
        if place.is_file() and base.is_file() and digest(place.read_bytes()) == file.sha256:
            changes.append(Change(file.path, "edited", place.read_bytes(), base.read_bytes()))
    return changes


def _without_entries(
    root: Path, unit: Unit, done: Container[str]
) -> tuple[list[Change], tuple[Entry, ...]]:
    edits = RegistryEdits(lambda entry: (root / entry.file).read_bytes())
    changed: list[Entry] = []
    # The last one first: what stood between two of them comes back as it was.
    for entry in reversed([each for each in unit.entries if each.file not in done]):
        # A registry that is gone has lost the line as well.
        if not (root / entry.file).is_file():
            continue
        try:
            data = edits.text(entry)
            if shapes.has_entry(data, entry):
                edits.remove(entry)
            # The key is there with another value, which a person has written.
            elif entry.key in shapes.read_entries(data, entry):
                changed.append(entry)
        except RegistryError as error:
            error.hint = _by_hand(unit, entry, error)
            raise
    return edits.changes(), tuple(changed)


def _without_settings(
    root: Path, unit: Unit, others: Iterable[Unit]
) -> tuple[list[Change], list[Change]]:
    """Return configurations as they were before, and records of units that were set over it."""
    if not unit.settings:
        return [], []
    from scaffold.edit.yaml_setting import take_back  # brings the parser of YAML

    before = {
        row.file: (root / row.file).read_bytes()
        for row in unit.settings
        if (root / row.file).is_file()
    }
    after = dict(before)
    heirs: dict[str, Unit] = {other.id: other for other in others}
    rows_here = [each for each in unit.settings if each.file in before]
    for row in reversed(rows_here):
        try:
            after[row.file] = take_back(after[row.file], row)
        except RegistryError as error:
            error.hint = f"repair {row.file} first, then remove again"
            raise
    # The first one first: where a unit was set again, others are between its own two rows.
    for row in rows_here:
        for name, heir in heirs.items():
            # What was set after this one goes back to what was there before it.
            rows = tuple(
                each._replace(was=row.was)
                if (each.file, each.key, each.was) == (row.file, row.key, row.value)
                else each
                for each in heir.settings
            )
            heirs[name] = heir._replace(settings=rows)
    edits = [
        Change(file, "edited", data, after[file])
        for file, data in before.items()
        if after[file] != data
    ]
    records = [
        Change(path, "record", (root / path).read_bytes(), dump_unit(heirs[other.id]))
        for other in others
        if heirs[other.id] != other
        for path in [record_path(other.kind, other.name)]
    ]
    return edits, records


def _by_hand(unit: Unit, entry: Entry, error: RegistryError) -> str:
    if error.code == "registry_syntax":
        return f"repair {entry.file} first, then remove again"
    record = record_path(unit.kind, unit.name)
    return (
        f"remove {entry.key!r} from {entry.table} in {entry.file}, and delete {record}: "
        "the unit is forgotten then, and its files are yours"
    )


def _records(root: Path, unit: Unit, *, is_last: bool) -> list[Change]:
    paths = [record_path(unit.kind, unit.name)]
    paths += [
        base_path(unit.kind, unit.name, file.path) for file in (*unit.files, *unit.reformatted)
    ]
    found = [path for path in paths if (root / path).is_file()]
    if is_last and (root / ATTRIBUTES).is_file():
        # With the last unit goes what was written for all of them, if nobody has added to it.
        found += [ATTRIBUTES] * ((root / ATTRIBUTES).read_bytes() == ATTRIBUTES_TEXT)
    return [Change(path, "record", (root / path).read_bytes(), None) for path in found]


def remove_unit(unit_id: str, discard: Iterable[str], options: Options) -> Report:
    """Take back what was made under an ID: untouched files, registry lines and the record."""
    with at_work(f"remove {unit_id}", options) as work:
        # A broken record of another unit is only warned of: this one can be removed all the same.
        units, problems = sound_units(work.root)
        unit = find_unit(work.root, unit_id)
        work.report.warnings += tuple(f"{each.message}; {each.hint}" for each in problems)
        removal = plan_remove(work.root, unit, units, discard=_is_named(unit, discard))
        report = work.report
        # The copies come first: a removal that fails later loses nothing.
        if removal.lost and not options.dry_run:
            saved = back_up(work.root, unit.id, removal.lost)
            report.warnings += (f"edited files were copied to {saved} before they were deleted",)
        report.warnings += tuple(
            f"{path} was edited and is kept; it is no longer registered" for path in removal.kept
        )
        report.warnings += tuple(
            f"{row.file} has something else for {row.key!r} by now, and keeps it"
            for row in removal.changed
        )
        work.apply(removal.changes)
    return report


def _is_named(unit: Unit, discard: Iterable[str]) -> bool:
    """Return whether ``--discard-edits`` names a unit.

    Raises:
        RequestError: It names another one, which the person may believe to be meant.
    """
    wrong = [each for each in discard if each not in (unit.id, unit.name)]
    if wrong:
        raise RequestError(
            f"--discard-edits names {wrong[0]!r}, and the command {unit.id}",
            code="usage",
            hint=f"--discard-edits {unit.id}",
        )
    return bool(tuple(discard))
