"""What bringing a unit up to date comes to: its files merged, its registry lines and record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scaffold.edit.entry import Entry
from scaffold.errors import ConflictError, LedgerError
from scaffold.report import Registration, Step
from scaffold.templating.render import RenderedFile
from scaffold.templating.request import Request
from scaffold.templating.spec import SUPPORT
from scaffold.transaction.change import Change
from scaffold.transaction.snapshot import take_snapshot
from scaffold.units.ledger import (
    ATTRIBUTES,
    Unit,
    base_path,
    parse_unit,
    read_units,
    record_path,
)
from scaffold.units.merge import merge
from scaffold.units.records import records_of, unit_of
from scaffold.units.registries import RegistryEdits
from scaffold.units.status import file_status


@dataclass(frozen=True)
class UpdatePlan:
    """Everything that bringing a unit up to date comes to.

    Args:
        unit: The unit as it is then.
        changes: Files to write or delete, the tool's own records last.
        registered: Registry lines that are added.
        conflicts: Where a person has to decide.
        warnings: What was left alone, and why.
    """

    unit: Unit
    changes: tuple[Change, ...]
    registered: tuple[Registration, ...] = ()
    conflicts: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_update(
    root: Path,
    made: Unit,
    request: Request,
    rendered: Sequence[RenderedFile],
    earlier: Iterable[Change] = (),
) -> UpdatePlan:
    """Work out how a unit is brought up to date; nothing is written.

    Args:
        root: The target's folder.
        made: The unit as it was made.
        request: The unit as it would be made.
        rendered: Its files, as they would be in the target.
        earlier: What the same command does for other units, in order: what this one starts from.

    Raises:
        ConflictError: A new file would replace one that the tool did not make.
        RegistryError: A registry cannot be edited.
    """
    work = _Merging(root, made, {change.path: change.after for change in earlier})
    own = [file for file in rendered if not work.was_there(file)]
    unit = unit_of(request, own)._replace(settings=made.settings)
    for file in own:
        work.update(file)
    work.drop_files({file.path for file in unit.files})
    work.update_entries(unit.entries)
    # Bases are renewed even where a conflict is left: the next merge starts from this text.
    paths = [record_path(unit.kind, unit.name), ATTRIBUTES]
    paths += [base_path(unit.kind, unit.name, file.path) for file in unit.files]
    records = records_of(unit, own, take_snapshot(root, paths))
    return UpdatePlan(
        unit,
        (*work.changes, *work.edits.changes(), *records, *work.stale_bases()),
        tuple(work.edits.registered),
        tuple(work.conflicts),
        tuple(work.warnings),
    )


class _Merging:
    """Collects what has to be written, file by file."""

    def __init__(self, root: Path, made: Unit, planned: Mapping[str, bytes | None]) -> None:
        self.root = root
        self.made = made
        self.planned = planned
        self.changes: list[Change] = []
        self.edits = RegistryEdits(self._registry)
        self.conflicts: list[Step] = []
        self.warnings: list[str] = []
        self._gone: list[str] = []

    @cached_property
    def _others(self) -> set[str]:
        """The files of all other units, as the units before this one leave them."""
        found: set[str] = set()
        for unit in read_units(self.root):
            record = record_path(unit.kind, unit.name)
            data = self.planned.get(record)
            now = unit if data is None else parse_unit(data, record)
            found |= {file.path for file in now.files if unit.id != self.made.id}
        return found

    def was_there(self, file: RenderedFile) -> bool:
        """Return whether a module is at its place that no unit brought."""
        if file.role != SUPPORT or not (self.root / file.path).is_file():
            return False
        if file.path in {*self._others, *(own.path for own in self.made.files)}:
            return False
        if self._now(file.path) != file.data:
            text = "differs from the module of its template, and stays: no unit brought it"
            self.warnings.append(f"{file.path} {text}")
        return True

    def update(self, file: RenderedFile) -> None:
        """Merge one rendered file into what is at its place."""
        known = {each.path for each in self.made.files}
        base = self._now(base_path(self.made.kind, self.made.name, file.path))
        mine = self._now(file.path)
        if mine is None:
            if file.path not in known:
                self.changes.append(Change(file.path, "created", None, file.data))
            # A person deleted it, which is respected; only news in the template are worth a word.
            elif base != file.data:
                self.warnings.append(f"{file.path} was deleted; what its template adds is left out")
            return
        if file.path not in known and file.role == SUPPORT:
            return  # another unit brought it, and it is merged with that one
        if file.path not in known and mine != file.data:
            raise ConflictError(
                f"{file.path} exists and was not generated by scaffold", code="file_exists",
                hint="move it away, then update again",
            )  # fmt: skip
        if base is None:
            raise LedgerError(
                f"{base_path(self.made.kind, self.made.name, file.path)} is missing",
                code="base_missing",
                hint="restore it from version control",
            )
        merged = merge(file.path, base, mine, file.data)
        if merged.data != mine:
            action = "conflict" if merged.conflicts else "merged"
            # What comes out is the template's text: nothing of the person's had to be kept.
            action = "updated" if merged.data.replace(b"\r\n", b"\n") == file.data else action
            self.changes.append(Change(file.path, action, mine, merged.data))
        why = "decide between your text and the template's, marked <<<<<<< and >>>>>>>"
        self.conflicts += [Step(file.path, line, why) for line in merged.conflicts]

    def drop_files(self, wanted: set[str]) -> None:
        """Delete the files that are not made any more, unless somebody edited them."""
        for file in self.made.files:
            if file.path in wanted:
                continue
            self._gone.append(file.path)
            if file.path in self._others:
                continue  # what two units made goes with the last
            state = file_status(self.root, self.made, file)
            if state == "untouched":
                data = (self.root / file.path).read_bytes()
                self.changes.append(Change(file.path, "deleted", data, None))
            elif state == "edited":
                text = "is no longer generated; it was edited, so it stays"
                self.warnings.append(f"{file.path} {text}")

    def update_entries(self, wanted: Sequence[Entry]) -> None:
        """Take back the registry lines that are not made any more, and add the new ones."""
        # Out before in: a line whose value alone changed would be refused as another one.
        for entry in reversed(self.made.entries):
            if entry not in wanted:
                self.edits.remove(entry)
        for entry in wanted:
            if entry not in self.made.entries:
                self.edits.add(entry)

    def stale_bases(self) -> list[Change]:
        """Return the bases of the files that are not made any more."""
        paths = [base_path(self.made.kind, self.made.name, path) for path in self._gone]
        found = [path for path in paths if (self.root / path).is_file()]
        return [Change(path, "record", (self.root / path).read_bytes(), None) for path in found]

    def _registry(self, entry: Entry) -> bytes:
        data = self._now(entry.file)
        if data is None:
            raise ConflictError(
                f"the registry {entry.file} is missing", code="registry_missing",
                hint="restore it from version control",
            )  # fmt: skip
        return data

    def _now(self, path: str) -> bytes | None:
        """Return a file as the units before this one leave it; None where there is none."""
        if path in self.planned:
            return self.planned[path]
        place = self.root / path
        return place.read_bytes() if place.is_file() else None
