"""Models that are in a target: registered once they are proven, and brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scaffold.archon.pipeline import (
    KIND,
    PROVEN,
    UNPROVEN,
    Log,
    ModelOptions,
    ModelWork,
    measured,
    model_request,
    refusals_found,
    with_refusals,
)
from scaffold.archon.proof_report import proof_lines
from scaffold.archon.source import source_of
from scaffold.edit.entry import Entry
from scaffold.errors import LedgerError, RegistryError
from scaffold.report import Registration, Report
from scaffold.target.target import Target
from scaffold.templating.request import Request
from scaffold.transaction.apply import session
from scaffold.transaction.change import Change
from scaffold.units.context import Options, reported_changes
from scaffold.units.ledger import Unit, dump_unit, find_unit, record_path
from scaffold.units.registries import RegistryEdits
from scaffold.units.update_plan import plan_update
from scaffold.verify.command import Trial, run_verify

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile
    from scaffold.units.update_plan import UpdatePlan


class _Attempt(NamedTuple):
    """A model written again and merged; without a proof where nothing changes, or in conflict."""

    request: Request
    rendered: tuple[RenderedFile, ...]
    update: UpdatePlan
    proof: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing but records is written."""
        return all(change.action == "record" for change in self.update.changes)


def update_model(
    target: Target, unit: Unit, request: Request, options: Options, earlier: Sequence[Change]
) -> tuple[UpdatePlan, tuple[str, ...]]:
    """Work out how a model is brought up to date: measured and written again, merged, proven again.

    Args:
        target: Where it is.
        unit: The model as it was made.
        request: The model as it is to be.
        options: Whether the target's formatters run.
        earlier: What the same command does before.

    Returns:
        What is written, and warnings.
    """
    work = ModelWork(target, ModelOptions(), lambda line: None)
    source = source_of(dict(request.answers))
    design = work.derive(source, request.answers, request.names["parts"])
    asked = measured(request, design)
    tried = _attempt(work, unit, asked, design, options, earlier)
    wrong = refusals_found(tried.proof)
    if wrong:  # as in `ModelWork.draw`: it is written once more, to refuse them
        tried = _attempt(work, unit, asked, with_refusals(design, wrong), options, earlier)
    if tried.is_unchanged:
        return tried.update, tried.warnings
    is_proven = bool(tried.proof.get("ok"))
    # Without rules the update takes the registry lines of the unit out.
    rules = tried.request.rules if is_proven else ()
    settled = replace(tried.request, proof=PROVEN if is_proven else UNPROVEN, rules=rules)
    warnings = tried.warnings
    if not is_proven:
        why = proof_lines(tried.proof)[0] if tried.proof else "a merge has conflicts"
        warnings += (f"{unit.id} is not proven after the merge, so it is not registered: {why}",)
    return plan_update(target.root, unit, settled, tried.rendered, earlier), warnings


def _attempt(
    work: ModelWork,
    unit: Unit,
    asked: Request,
    design: Mapping[str, Any],
    options: Options,
    earlier: Sequence[Change],
) -> _Attempt:
    root = work.target.root
    request, rendered, warnings = work.render(asked, design, options)
    # As if nothing changed: only then shows whether a new proof is needed.
    kept = replace(request, proof=unit.proof, rules=request.rules if unit.entries else ())
    update = plan_update(root, unit, kept, rendered, earlier)
    tried = _Attempt(request, rendered, update, {}, warnings)
    if tried.is_unchanged or update.conflicts:
        return tried
    source = source_of(dict(asked.answers))
    merged = _merged(root, rendered, update)
    return tried._replace(proof=work.prove(request, source, merged, design))


def _merged(
    root: Path, rendered: Iterable[RenderedFile], update: UpdatePlan
) -> tuple[RenderedFile, ...]:
    """Return the files as they will be there once the update is written."""
    planned = {change.path: change.after for change in update.changes}
    found: list[RenderedFile] = []
    for file in rendered:
        place = root / file.path
        data = planned.get(file.path, place.read_bytes() if place.is_file() else None)
        found += [replace(file, data=data)] if data is not None else []
    return tuple(found)


def verify_and_register(ids: Iterable[str], how: Trial, log: Log, options: Options) -> Report:
    """Run what was made, and register the models among it that are proven now."""
    report = run_verify(ids, how, log, options)
    register_proven(report, options)
    return report


def register_proven(report: Report, options: Options) -> None:
    """Register the unproven models that a verification has found to be proven.

    Args:
        report: That of the verification, which is told what was registered.
        options: Where it was.
    """
    verdicts = {row["id"]: row["verdict"] for row in report.extra.get("units", [])}
    target = options.find()
    for unit_id, verdict in verdicts.items():
        # Units of other kinds are registered when they are made.
        if not unit_id.startswith(f"{KIND}/") or verdict != "ok":
            continue
        try:
            unit = find_unit(target.root, unit_id)
        except LedgerError:
            continue
        if unit.proof == UNPROVEN:
            kind, source = target.catalogue.kind(unit.kind), source_of(dict(unit.answers))
            entries = model_request(target, kind, source, {}, unit.name).edited()
            register_unit(report, target, unit, entries, PROVEN, options)
            rows = [f"registered {r.file}:{r.line}  {r.key}\n" for r in report.registered]
            report.text = (report.text or "") + "".join(rows)


def register_unit(
    report: Report,
    target: Target,
    unit: Unit,
    entries: Sequence[Entry],
    proof: str,
    options: Options,
) -> Report:
    """Add the registry lines of a unit that is there and remember its proof, in one step.

    Raises:
        RegistryError: A registry cannot be edited without risk.
    """
    if options.dry_run:
        changes, lines = _planned(target.root, unit, entries, proof)
    else:
        with session(target.root, f"verify {unit.id}") as opened:
            changes, lines = _planned(target.root, unit, entries, proof)
            opened.apply(changes)
    report.changes += reported_changes(changes)
    report.registered += tuple(lines)
    return report


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
