"""The commands behind the command line: each settles a request, does it, returns a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaffold.report import Report
from scaffold.target.target import (
    Target,
    describe,
    registry_rules,
    unit_names,
)
from scaffold.templating.answers import complete_answers
from scaffold.templating.names import canonical_key
from scaffold.templating.request import Request
from scaffold.templating.spec import Kind, Style, all_answers
from scaffold.transaction.state import has_journal
from scaffold.units.context import (
    Options,
    made_unit,
    nothing_to_do,
    origin_warnings,
    reported_changes,
    settled_warning,
)
from scaffold.units.ledger import read_units, record_path

if TYPE_CHECKING:
    from scaffold.target.style import Manner
    from scaffold.templating.render import RenderedFile
    from scaffold.transaction.snapshot import Snapshot
    from scaffold.units.columns import ColumnMap
    from scaffold.units.plan import Plan

    RenderedFiles = tuple[RenderedFile, ...]

# Rendering and LibCST are imported where they are used: help, listing and a run that has nothing to
# do must not pay for them.


def add_unit(
    kind: Kind, typed: str, styles: Iterable[str], given: Mapping[str, Any], options: Options
) -> Report:
    """Adds a unit of a kind to the target: its files, its registry line and its record."""
    command = kind.command or f"add {kind.name}"
    target, settled = options.find_settled(command)
    chosen = target.catalogue.styles(kind, styles)
    key = canonical_key(typed, kind.suffixes, kind.reserved)
    given, columns = _sampled(kind, chosen, given, options)
    request = replace(
        request_for(target, kind, chosen, key, given),
        overwrite=options.overwritten(target.root),
    )
    report = Report(command, describe(target), dry_run=options.dry_run)
    report.check = (options.command("verify", request.id),)
    report.warnings += (*settled, *origin_warnings(request))
    if columns is not None:
        report.found = columns.lines()
        report.extra["columns"] = [vars(match) for match in columns.matches]
    made = made_unit(target.root, request)
    if made is not None and not has_journal(target.root):
        return nothing_to_do(report, target.root, request, made, options)
    manner = manner_for(target, request)
    request = replace(request, names=_names(target, kind, key, chosen, manner.names))
    rendered, warnings = rendered_files(target, request, manner, with_format=options.with_format)
    report.warnings += warnings
    return write_unit(report, target, request, rendered, options)


def write_unit(
    report: Report, target: Target, request: Request, rendered: RenderedFiles, options: Options
) -> Report:
    """Plans a unit whose files are rendered and writes it, or tells what would be written.

    Args:
        report: What is known so far; it is filled in and returned.
        target: Where the unit goes.
        request: The unit.
        rendered: Its files, as they are to stand in the target.
        options: Whether anything is written.
    """
    if options.dry_run:
        plan = _plan(request, rendered, _look(request, target.root))
        return _told(report, _tidied(target, request, plan, options))
    from scaffold.transaction.apply import session

    # Refusals come before the lock, which leaves a file; what is written is planned under it.
    seen = None if has_journal(target.root) else _look(request, target.root)
    plan = None if seen is None else _plan(request, rendered, seen)
    with session(target.root, f"{report.command} {request.key}") as opened:
        report.warnings += settled_warning(opened.settled)
        made = made_unit(target.root, request)
        if made is not None:
            return nothing_to_do(report, target.root, request, made, options)
        found = _look(request, target.root)
        if plan is None or found != seen:
            plan = _plan(request, rendered, found)
        plan = _tidied(target, request, plan, options)
        opened.apply(plan.changes)
    return _told(report, plan)


def add_tests(
    kind: Kind, module: str, style: str | None, to: str | None, options: Options
) -> Report:
    """Adds tests for a module that stands in the target; see `scaffold.units.subject`."""
    from scaffold.units.subject import read_subject

    found = read_subject(options.find(), module, options.folder, style or "", to or "")
    return add_unit(kind, found.key, (found.style,), found.answers, options)


def request_for(
    target: Target,
    kind: Kind,
    styles: tuple[Style, ...],
    key: str,
    given: Mapping[str, Any],
    otherwise: Mapping[str, str] | None = None,
) -> Request:
    """Returns the request for one unit in a target, its answers checked and its names derived."""
    names = _names(target, kind, key, styles, otherwise)
    answers = complete_answers(all_answers(kind, styles), given)
    return Request(kind, styles, key, answers, names, registry_rules(target, kind))


def rendered_files(
    target: Target,
    request: Request,
    manner: Manner,
    *,
    with_format: bool = True,
    sources: Mapping[str, bytes] | None = None,
) -> tuple[RenderedFiles, tuple[str, ...]]:
    """Returns the files of a request as they are to stand in the target, and warnings.

    ``sources`` are the template files, path to bytes; without them those of the kind.
    """
    from scaffold.target.restyle import dress
    from scaffold.templating.request import render_request

    rendered = render_request(request, sources or target.catalogue.files(request.kind.name))
    return dress(target, rendered, manner, with_format=with_format)


def _names(
    target: Target,
    kind: Kind,
    key: str,
    styles: tuple[Style, ...],
    otherwise: Mapping[str, str] | None,
) -> dict[str, str]:
    return unit_names(target, kind, key, "" if kind.multiple else styles[0].name, otherwise)


def manner_for(target: Target, request: Request) -> Manner:
    """Returns the target's manner; nothing is learned where it is said where tests go.

    A layout says it, and the manifest of a kind that is the repository's own.
    """
    from scaffold.target.restyle import manner_of

    manner = manner_of(target, request.names)
    place = target.place(request.kind)
    is_said = request.kind.origin == "repository" and "test" in request.kind.place
    is_said = is_said or (place is not None and "test" in place.names)
    is_said = is_said and "test" not in target.style
    return replace(manner, names={}) if is_said else manner


def _tidied(target: Target, request: Request, plan: Plan, options: Options) -> Plan:
    if not options.with_format:
        return plan
    from scaffold.target.restyle import tidy

    return replace(plan, changes=tidy(target, plan.changes, request.edited()))


def _look(request: Request, root: Path) -> Snapshot:
    from scaffold.transaction.snapshot import take_snapshot
    from scaffold.units.plan import paths_to_list, paths_to_read

    made = (root / record_path(request.kind.name, "x")).parent
    siblings = [path.stem for path in sorted(made.glob("*.toml"))]
    files = paths_to_list(request)
    seen = take_snapshot(root, paths_to_read(request), siblings, files)
    taken = {path for path in files if seen.data(path) is not None}
    units = read_units(root) if taken else ()  # which costs time, and decides about these only
    owners = {file.path: unit.id for unit in units for file in unit.files if file.path in taken}
    return replace(seen, owners=owners)


def _plan(request: Request, rendered: RenderedFiles, seen: Snapshot) -> Plan:
    from scaffold.units.plan import make_plan

    return make_plan(request, rendered, seen)


def _told(report: Report, plan: Plan) -> Report:
    """Returns the report with what the plan comes to."""
    report.changes = reported_changes(plan.changes)
    report.registered = plan.registered
    report.next = plan.next
    report.unfinished = plan.unfinished
    return report


def _sampled(
    kind: Kind, styles: tuple[Style, ...], given: Mapping[str, Any], options: Options
) -> tuple[Mapping[str, Any], ColumnMap | None]:
    """Returns the answers, completed from the sample if there is one."""
    if options.sample is None:
        return given, None
    from scaffold.units.sample import answers_from_sample

    path = Path(options.sample)
    path = options.folder / path if (options.folder / path).exists() else path
    names = [style.name for style in styles]
    return answers_from_sample(path, all_answers(kind, styles), names, given)
