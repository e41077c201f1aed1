"""Compares what was made with what is there now."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from scaffold.edit.entry import Entry
from scaffold.edit.setting import Setting
from scaffold.edit.shapes import has_entry, read_entries, remove_entry, text_to_add
from scaffold.errors import ConflictError, ScaffoldError, TemplateError
from scaffold.report import Report
from scaffold.target.target import describe
from scaffold.templating.manifests import Catalogue
from scaffold.transaction.digest import digest
from scaffold.transaction.leftovers import leftover_warning
from scaffold.units.context import Options
from scaffold.units.equivalence import is_equivalent
from scaffold.units.ledger import LedgerFile, Unit, base_path, sound_units
from scaffold.units.registries import RegistryEdits
from scaffold.units.work import at_work

FileStatus = Literal["untouched", "edited", "missing"]


@dataclass(frozen=True)
class UnitStatus:
    """A unit as it is now.

    Args:
        unit: What was made.
        files: Path to what became of it.
        unregistered: The registry lines that are gone or say something else.
        moved_on: The templates that have a newer version, as "reward/exact 1 -> 2".
    """

    unit: Unit
    files: dict[str, FileStatus]
    unregistered: tuple[Entry, ...]
    moved_on: tuple[str, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """The unit's states in short; ("untouched",) where all is as it was made."""
        found = {state for state in self.files.values() if state != "untouched"}
        states = sorted(found) + ["unregistered"] * bool(self.unregistered)
        states += [self.unit.proof] * (self.unit.proof == "unproven")
        return (*states, *(["outdated"] * bool(self.moved_on))) or ("untouched",)


def unit_status(
    root: Path, unit: Unit, catalogue: Catalogue, others: Iterable[Unit] = ()
) -> UnitStatus:
    """Look at every file and registry line of a unit.

    Args:
        root: The target's folder.
        unit: What was made.
        catalogue: What can be made there.
        others: All units made there; lines that they added to the unit's files are no edits.
    """
    others = tuple(others)
    added = [entry for other in others for entry in other.entries]
    settings = [row for other in others for row in other.settings]
    return UnitStatus(
        unit,
        {file.path: file_status(root, unit, file, added, settings) for file in unit.files},
        tuple(entry for entry in unit.entries if not _is_registered(root, entry)),
        tuple(_moved_on(unit, catalogue)),
    )


def file_status(
    root: Path,
    unit: Unit,
    file: LedgerFile,
    others: Iterable[Entry] = (),
    settings: Iterable[Setting] = (),
) -> FileStatus:
    """Return what became of a file; see `scaffold.units.equivalence` for what counts as an edit.

    Args:
        root: The target's folder.
        unit: What the file belongs to.
        file: The file as it was rendered.
        others: Registry lines that may have been added to it since, which are no edits.
        settings: Keys that may have been set in it since, which are none either.
    """
    try:
        now = (root / file.path).read_bytes()
    except OSError:
        return "missing"
    added = [entry for entry in others if entry.file == file.path]
    # A package's `__init__.py` may be a unit's file and the registry of others. Plain lines are
    # told by their text, which is fast; any other layout is edited back.
    if added and digest(_without_lines(now, added)) == file.sha256:
        return "untouched"
    for entry in added:
        now = _without(now, entry)
    now = _without_settings(now, [row for row in settings if row.file == file.path])
    if digest(now) == file.sha256:
        return "untouched"
    base = root / base_path(unit.kind, unit.name, file.path)
    if base.is_file() and is_equivalent(file.path, base.read_bytes(), now):
        return "untouched"
    return "edited"


def _without(data: bytes, entry: Entry) -> bytes:
    try:
        return remove_entry(data, entry)
    except ScaffoldError:
        return data


def _without_settings(data: bytes, settings: Sequence[Setting]) -> bytes:
    """Return a file with its keys as before; several units may have set one after the other."""
    if not settings:
        return data
    from scaffold.edit.yaml_setting import take_back_all  # brings the parser of YAML

    with suppress(ScaffoldError):
        data = take_back_all(data, settings)
    return data


def _without_lines(data: bytes, added: Iterable[Entry]) -> bytes:
    """Return a file without the lines that are an entry and nothing else; parses nothing."""
    lines = {text_to_add(entry).encode() for entry in added if _is_plain(entry)}
    return b"".join(row for row in data.splitlines(keepends=True) if row.strip() not in lines)


def _is_registered(root: Path, entry: Entry) -> bool:
    try:
        data = (root / entry.file).read_bytes()
        # Hundreds of units share one table, which is read again only where it has another content.
        known = _entries(data, replace(entry, key="", value="")) if _is_plain(entry) else {}
        # has_entry also compares values that are code.
        return known.get(entry.key) == entry.value or has_entry(data, entry)
    except (OSError, ScaffoldError):
        return False


def _is_plain(entry: Entry) -> bool:
    """Return whether an entry is strings in a literal: reading those depends on the table alone."""
    return entry.shape in ("dict", "list") and not entry.code


@functools.lru_cache(maxsize=8)
def _entries(data: bytes, table: Entry) -> dict[str, str | None]:
    return read_entries(data, table)


def _moved_on(unit: Unit, catalogue: Catalogue) -> list[str]:
    found: list[str] = []
    for use in unit.templates:
        newest = _newest_version(use.id, catalogue)
        if newest is not None and newest > use.version:
            found.append(f"{use.id} {use.version} -> {newest}")
    return found


def _newest_version(template: str, catalogue: Catalogue) -> int | None:
    """Return the version of a template, None where it is gone or cannot be read."""
    kind, _, style = template.partition("/")
    known = catalogue.style_names(kind) if style else catalogue.kind_names()
    if (style or kind) not in known:
        return None
    with suppress(TemplateError):
        return (catalogue.style(kind, style) if style else catalogue.kind(kind)).version
    return None


def fix_registries(options: Options) -> Report:
    """Add the registry lines again that a merge or an edit lost."""
    with at_work("status", options) as work:
        units, problems = sound_units(work.root)
        edits = RegistryEdits(lambda entry: _read(work.root, entry.file))
        for unit in units:
            for entry in unit_status(work.root, unit, work.target.catalogue, units).unregistered:
                try:
                    edits.add(entry)
                except ScaffoldError as error:  # the lines of other registries can be fixed
                    problems.append(error)
        work.report.registered += tuple(edits.registered)
        work.apply(edits.changes())
        work.report.fail_in_part(problems)
    return work.report


def _read(root: Path, file: str) -> bytes:
    try:
        return (root / file).read_bytes()
    except OSError as error:
        raise ConflictError(
            f"the registry {file} cannot be read: {error.strerror}",
            code="registry_missing",
            hint="restore it from version control",
        ) from error


def show_status(options: Options) -> Report:
    """Report of every unit whether it is untouched, edited, missing, unregistered or outdated."""
    target = options.find()
    units, problems = sound_units(target.root)
    found = [unit_status(target.root, unit, target.catalogue, units) for unit in units]
    rows = [f"{status.unit.id:<32} {', '.join(status.states)}" for status in found]
    report = Report(
        "status",
        describe(target),
        warnings=leftover_warning(target.root),
        extra={"units": [status_json(status) for status in found]},
        text="\n".join(rows or ["nothing was generated here yet"]) + "\n",
    )
    report.fail_in_part(problems)
    return report


def status_json(status: UnitStatus) -> dict[str, Any]:
    unit = status.unit
    return {
        "id": unit.id,
        "states": list(status.states),
        "styles": list(unit.styles),
        "answers": dict(unit.answers),
        "proof": unit.proof,
        "templates": [use._asdict() for use in unit.templates],
        "files": [
            {"path": file.path, "role": file.role, "state": status.files[file.path]}
            for file in unit.files
        ],
        "entries": [
            {**vars(entry), "registered": entry not in status.unregistered}
            for entry in unit.entries
        ],
        "outdated": list(status.moved_on),
    }
