"""Bring units up to date with their templates, or with other answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from scaffold.errors import RequestError, nearest
from scaffold.report import Report
from scaffold.target.restyle import find_file_style
from scaffold.target.target import Target
from scaffold.templating.answers import parse_answer
from scaffold.templating.request import Request
from scaffold.templating.spec import all_answers
from scaffold.transaction.change import Change
from scaffold.units.add import rendered_files
from scaffold.units.context import Options
from scaffold.units.ledger import Unit, find_unit, read_units
from scaffold.units.prepare import request_for
from scaffold.units.update_plan import UpdatePlan, plan_update
from scaffold.units.work import Work, at_work


class Writer(Protocol):
    """What writes the units of a kind that has no template."""

    def __call__(
        self,
        target: Target,
        unit: Unit,
        request: Request,
        options: Options,
        earlier: Sequence[Change],
    ) -> tuple[UpdatePlan, tuple[str, ...]]:
        """Return how a unit is brought up to date, and warnings."""
        ...


def update_units(
    ids: Iterable[str],
    settings: Iterable[str],
    options: Options,
    writer_of: Callable[[str], Writer],
) -> Report:
    """Bring units up to date by three-way merges.

    Args:
        ids: The units; all of them where none is named.
        settings: Other answers, ``NAME=VALUE`` each.
        options: What every command accepts.
        writer_of: Finds the writer that a kind's manifest names; archon lies above this room.
    """
    with at_work("update", options) as work:
        units = [find_unit(work.root, each) for each in ids] or list(read_units(work.root))
        changed = _settings(settings)
        if changed and len(units) != 1:
            raise RequestError(
                "--set is for one unit, and needs its ID",
                code="usage",
                hint="scaffold update ID --set NAME=VALUE; `scaffold status` lists the IDs",
            )
        changes: list[Change] = []
        for unit in units:
            plan = _planned(work, unit, changed, changes, writer_of)
            _report_plan(work, plan)
            # The next unit starts from what this one leaves, as both may add to one registry.
            changes += plan.changes
        work.apply(_composed(changes))
    return work.report


def _composed(changes: Iterable[Change]) -> list[Change]:
    """Return one change per file for several in order, such as two of one registry."""
    found: dict[str, Change] = {}
    for change in changes:
        # The first change has the bytes on the disk, the last one those to be written.
        first = found.get(change.path, change)
        action = first.action if change.action == "edited" else change.action
        found[change.path] = first._replace(action=action, after=change.after)
    return [change for change in found.values() if change.before != change.after]


def _planned(
    work: Work,
    unit: Unit,
    changed: Mapping[str, str],
    earlier: Sequence[Change],
    writer_of: Callable[[str], Writer],
) -> UpdatePlan:
    kind = work.target.catalogue.kind(unit.kind)
    styles = work.target.catalogue.styles(kind, unit.styles)
    questions = all_answers(kind, styles)
    unknown = sorted(set(changed) - set(questions))
    if unknown:
        raise RequestError(
            f"{unit.id} has no answer {unknown[0]!r}{nearest(unknown[0], questions)}",
            code="usage",
            hint=f"`scaffold show {unit.id}` lists its answers",
        )
    # A question that the template has dropped since is no error.
    given: dict[str, Any] = {k: v for k, v in unit.answers.items() if k in questions}
    given |= {name: parse_answer(questions[name], text) for name, text in changed.items()}
    # What was made stays where it is, whatever the siblings do by now.
    made = {file.role: file.path for file in unit.files if file.role in ("source", "test")}
    named = made if kind.place else {}
    if kind.writer:
        # The registry's key is the model type as it is spelled there, which the unit's name folds.
        named |= {"registered": str(given["model_type"])}
    request = request_for(work.target, kind, styles, unit.name, given, named)
    if kind.writer:
        write = writer_of(kind.writer)
        plan, warnings = write(work.target, unit, request, work.options, earlier)
        work.report.warnings += warnings
        return plan
    file_style = find_file_style(work.target, request.names)
    rendered, warnings = rendered_files(
        work.target, request, file_style, with_format=work.options.with_format
    )
    work.report.warnings += warnings
    return plan_update(work.root, unit, request, rendered, earlier)


def _report_plan(work: Work, plan: UpdatePlan) -> None:
    report = work.report
    report.registered += plan.registered
    report.warnings += plan.warnings
    report.next += plan.conflicts
    if any(change.action != "record" for change in plan.changes):
        report.check += (work.options.command("verify", plan.unit.id),)
    if plan.conflicts:
        report.ok = False
        report.extra["conflicts"] = [row._asdict() for row in report.next]


def _settings(settings: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in settings:
        name, is_pair, value = text.partition("=")
        if not is_pair:
            raise RequestError(
                f"--set {text!r} is not a pair of a name and a value",
                code="usage",
                hint="scaffold update ID --set NAME=VALUE",
            )
        # `--set max-turns=4`, spelled as the option of the add is.
        found[name.replace("-", "_")] = value
    return found
