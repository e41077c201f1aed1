"""Add a unit: its files, its registry line and its record, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaffold.edit import shapes
from scaffold.report import Report, set_lines
from scaffold.target.restyle import find_file_style, restyle, tidy
from scaffold.target.style import FileStyle
from scaffold.target.target import Target
from scaffold.templating.render import RenderedFile, render_request
from scaffold.templating.request import Request
from scaffold.templating.spec import Kind
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest
from scaffold.transaction.leftovers import settled_warning
from scaffold.transaction.snapshot import Snapshot, take_snapshot
from scaffold.transaction.state import has_journal
from scaffold.units.context import Options, reported_changes
from scaffold.units.existing import existing_unit, nothing_to_do
from scaffold.units.ledger import LedgerFile, base_path, dump_unit, read_units, record_path
from scaffold.units.plan import Plan, make_plan, paths_to_list, paths_to_read
from scaffold.units.prepare import Prepared, names_of, prepare
from scaffold.units.use import NOTHING, Use, find_use

RenderedFiles = tuple[RenderedFile, ...]


def add_unit(
    kind: Kind, typed: str, styles: Iterable[str], given: Mapping[str, Any], options: Options
) -> Report:
    """Add a unit of a kind to the target; see `scaffold.units.prepare` for what can be refused."""
    return add_prepared(prepare(kind, typed, styles, given, options), options)


def add_prepared(prepared: Prepared, options: Options) -> Report:
    """Render and write a unit whose request is settled."""
    target, request, report = prepared.target, prepared.request, prepared.report
    if prepared.is_made:
        if not options.use:
            return report
        from scaffold.units.use_plan import use_made  # brings the parser of YAML

        return use_made(report, target, request, options)
    file_style = file_style_for(target, request)
    names = names_of(target, request.kind, request.key, request.styles, file_style.names)
    request = replace(request, names=names)
    rendered, warnings = rendered_files(
        target, request, file_style, with_format=options.with_format
    )
    report.warnings += warnings
    return write_unit(
        report, target, request, rendered, options, find_use(target, request, options)
    )


def write_unit(
    report: Report,
    target: Target,
    request: Request,
    rendered: RenderedFiles,
    options: Options,
    use: Use = NOTHING,
) -> Report:
    """Plan a unit whose files are rendered, and write it unless the run is dry.

    Args:
        report: What is known so far; it is filled in and returned.
        target: Where the unit goes.
        request: The unit.
        rendered: Its files, as they are to be in the target.
        options: Whether anything is written.
        use: The configurations that are to use it.
    """
    if options.dry_run:
        plan = make_plan(request, rendered, take_look(request, target.root, use), use)
        return report_plan(report, _tidied(target, request, plan, options))
    from scaffold.transaction.apply import session  # a dry run, which stops above, locks nothing

    # Refusals come before the lock, which leaves a file; what is written is planned under it.
    seen = None if has_journal(target.root) else take_look(request, target.root, use)
    plan = None if seen is None else make_plan(request, rendered, seen, use)
    if plan is not None and plan.configured and not _is_agreed(plan, use, options):
        use, plan = NOTHING, None
    with session(target.root, f"{report.command} {request.key}") as opened:
        report.warnings += settled_warning(opened.settled)
        # Two adds of one unit at once: the second one finds it made.
        made = existing_unit(target.root, request)
        if made is not None:
            return nothing_to_do(report, target.root, request, made, options)
        found = take_look(request, target.root, use)
        # Somebody wrote in the time between, or an interrupted run was settled on entry.
        if plan is None or found != seen:
            plan = make_plan(request, rendered, found, use)
        plan = _tidied(target, request, plan, options)
        opened.apply(plan.changes)
    return report_plan(report, plan)


def _is_agreed(plan: Plan, use: Use, options: Options) -> bool:
    if use.is_asked or options.agree is None:
        return True
    return options.agree(f"Set {'; '.join(set_lines(plan.configured))}?")


def rendered_files(
    target: Target,
    request: Request,
    file_style: FileStyle,
    *,
    with_format: bool = True,
    sources: Mapping[str, bytes] | None = None,
) -> tuple[RenderedFiles, tuple[str, ...]]:
    """Return the files of a request as they are to be in the target, and warnings.

    ``sources`` are the template files, path to bytes; without them those of the kind.
    """
    own = sources or target.catalogue.files(request.kind.name, request.support)
    rendered = render_request(request, own)
    return restyle(target, rendered, file_style, with_format=with_format)


def file_style_for(target: Target, request: Request) -> FileStyle:
    """Return the style of the target's files; nothing is learned where it is said where tests go.

    A layout has it, and the manifest of a kind that is the repository's own.
    """
    file_style = find_file_style(target, request.names)
    place = target.place(request.kind)
    is_said = request.kind.origin == "repository" and "test" in request.kind.place
    is_said = is_said or (place is not None and "test" in place.names)
    is_said = is_said and "test" not in target.style
    return replace(file_style, names={}) if is_said else file_style


def _tidied(target: Target, request: Request, plan: Plan, options: Options) -> Plan:
    """Return the plan with registries formatted; what these were before is kept for removal."""
    if not options.with_format:
        return plan
    tidied = tidy(target, plan.changes, request.edited())
    anew = [now for was, now in zip(plan.changes, tidied, strict=True) if was.after != now.after]
    if not anew:
        return plan
    files = tuple(LedgerFile(each.path, "registry", digest(each.after or b"")) for each in anew)
    unit = plan.unit._replace(reformatted=files)
    record = record_path(unit.kind, unit.name)
    changes = [c._replace(after=dump_unit(unit)) if c.path == record else c for c in tidied]
    changes += [
        Change(base_path(unit.kind, unit.name, each.path), "record", None, each.before)
        for each in anew
    ]
    after = {each.path: each.after or b"" for each in anew}
    entries = {(each.file, each.table, each.key): each for each in request.edited()}
    # A formatter may have moved the lines.
    registered = tuple(
        row._replace(line=shapes.add_entry(after[row.file], entry).line)
        if row.file in after and (entry := entries.get((row.file, row.table, row.key)))
        else row
        for row in plan.registered
    )
    return replace(plan, unit=unit, changes=tuple(changes), registered=registered)


def take_look(request: Request, root: Path, use: Use = NOTHING) -> Snapshot:
    """Read all that the plan of a request depends on."""
    # The folder in which all records of the kind are.
    made = (root / record_path(request.kind.name, "x")).parent
    siblings = [path.stem for path in sorted(made.glob("*.toml"))]
    files = paths_to_list(request)
    seen = take_snapshot(root, (*paths_to_read(request), *use.files()), siblings, files)
    taken = {path for path in files if seen.data(path) is not None}
    units = read_units(root) if taken else ()  # which costs time, and decides about these only
    owners = {file.path: unit.id for unit in units for file in unit.files if file.path in taken}
    return replace(seen, owners=owners)


def report_plan(report: Report, plan: Plan) -> Report:
    """Return the report with what the plan comes to."""
    report.changes = reported_changes(plan.changes)
    report.registered = plan.registered
    report.configured = plan.configured
    report.next = plan.next
    report.hints = plan.hints
    report.unfinished = plan.unfinished
    return report
