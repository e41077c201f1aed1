"""The commands that keep up what was made: take back, bring up to date, mend, settle, leave."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaffold.edit import shapes
from scaffold.errors import ConflictError, RequestError, ScaffoldError, nearest
from scaffold.report import Registration, Report, Step
from scaffold.target.restyle import manner_of
from scaffold.target.target import Target, describe
from scaffold.templating.answers import parse_answer
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.templating.spec import all_answers
from scaffold.transaction.apply import Session, session, settle
from scaffold.transaction.backup import back_up, backups_folder
from scaffold.transaction.change import Change
from scaffold.units.add import (
    Options,
    leftover_warning,
    rendered_files,
    reported_changes,
    request_for,
    settled_warning,
)
from scaffold.units.ledger import ATTRIBUTES, FOLDER, Unit, find_unit, read_units, sound_units
from scaffold.units.remove import plan_removal
from scaffold.units.status import unit_status
from scaffold.units.update import Renewal, plan_renewal


@dataclass
class _Work:
    """Is a command at work on a target; with ``--dry-run`` nothing is held and nothing written."""

    target: Target
    report: Report
    opened: Session | None
    options: Options

    @property
    def root(self) -> Path:
        return self.target.root

    def apply(self, changes: Sequence[Change]) -> None:
        """Writes changes, in one step."""
        self.report.changes += reported_changes(changes)
        if self.opened is not None:
            self.opened.apply(changes, prune=True)


@contextmanager
def _at_work(command: str, options: Options) -> Generator[_Work]:
    target, settled = options.find_settled(command)
    report = Report(command.partition(" ")[0], describe(target), dry_run=options.dry_run)
    report.warnings += settled
    if options.dry_run:
        yield _Work(target, report, None, options)
        return
    with session(target.root, command) as opened:
        report.warnings += settled_warning(opened.settled)
        yield _Work(target, report, opened, options)


def remove_unit(unit_id: str, discard: Iterable[str], options: Options) -> Report:
    """Takes back what was made under an ID: untouched files, registry lines and the record."""
    with _at_work(f"remove {unit_id}", options) as work:
        units, problems = sound_units(work.root)
        unit = find_unit(work.root, unit_id)
        work.report.warnings += tuple(f"{each.message}; {each.hint}" for each in problems)
        removal = plan_removal(work.root, unit, units, discard=_is_named(unit, discard))
        report = work.report
        if removal.lost and not options.dry_run:
            saved = back_up(work.root, unit.id, removal.lost)
            report.warnings += (f"edited files were copied to {saved} before they were deleted",)
        report.warnings += tuple(
            f"{path} was edited and stays; it is yours and registered no more"
            for path in removal.kept
        )
        report.warnings += tuple(
            f"{row.file} says something else of {row.key!r} by now, and keeps it"
            for row in removal.changed
        )
        work.apply(removal.changes)
    return report


def update_units(ids: Iterable[str], settings: Iterable[str], options: Options) -> Report:
    """Brings units up to date with their templates, or with other answers, by three-way merges."""
    with _at_work("update", options) as work:
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
            renewal = _renewal(work, unit, changed, changes)
            _tell(work, renewal)
            changes += renewal.changes
        work.apply(_composed(changes))
    return work.report


def _composed(changes: Iterable[Change]) -> list[Change]:
    """Returns one change per file for several in order, such as two of one registry."""
    found: dict[str, Change] = {}
    for change in changes:
        first = found.get(change.path, change)
        action = first.action if change.action == "edited" else change.action
        found[change.path] = replace(first, action=action, after=change.after)
    return [change for change in found.values() if change.before != change.after]


def _renewal(
    work: _Work, unit: Unit, changed: Mapping[str, str], earlier: Sequence[Change]
) -> Renewal:
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
    given: dict[str, Any] = {k: v for k, v in unit.answers.items() if k in questions}
    given |= {name: parse_answer(questions[name], text) for name, text in changed.items()}
    # What was made stays where it is, whatever the siblings do by now.
    made = {file.role: file.path for file in unit.files if file.role in ("source", "test")}
    named = made if kind.place else {}
    if kind.writer:
        named |= {"registered": str(given["model_type"])}
    request = request_for(work.target, kind, styles, unit.name, given, named)
    if kind.writer:
        from scaffold.archon.update import renew_model

        renewal, warnings = renew_model(work.target, unit, request, work.options, earlier)
        work.report.warnings += warnings
        return renewal
    manner = manner_of(work.target, request.names)
    rendered, warnings = rendered_files(
        work.target, request, manner, with_format=work.options.with_format
    )
    work.report.warnings += warnings
    return plan_renewal(work.root, unit, request, rendered, earlier)


def _tell(work: _Work, renewal: Renewal) -> None:
    report = work.report
    report.registered += renewal.registered
    report.warnings += renewal.warnings
    report.next += renewal.conflicts
    if any(change.action != "record" for change in renewal.changes):
        report.check += (work.options.command("verify", renewal.unit.id),)
    if renewal.conflicts:
        report.ok = False
        report.extra["conflicts"] = [row._asdict() for row in report.next]


def fix_registries(options: Options) -> Report:
    """Adds the registry lines again that a merge or an edit lost."""
    with _at_work("status", options) as work:
        units, problems = sound_units(work.root)
        texts: dict[str, tuple[bytes, bytes]] = {}
        for unit in units:
            for entry in unit_status(work.root, unit, work.target.catalogue, units).unregistered:
                try:
                    before, data = texts.get(entry.file) or (_read(work.root, entry.file),) * 2
                    edit = shapes.add_entry(data, entry)
                except ScaffoldError as error:  # the lines of other registries can be mended
                    problems.append(error)
                    continue
                texts[entry.file] = (before, edit.data)
                work.report.registered += (
                    Registration(entry.file, entry.table, entry.key, entry.value, edit.line),
                )
        work.apply([Change(file, "edited", *pair) for file, pair in texts.items()])
        work.report.fail_in_part(problems)
    return work.report


def eject_template(name: str, options: Options) -> Report:
    """Copies a template into the repository, where it may be changed and comes first."""
    kind, _, style = name.partition("/")
    with _at_work(f"eject {name}", options) as work:
        catalogue = work.target.catalogue
        origin = catalogue.style(kind, style).origin if style else catalogue.kind(kind).origin
        if origin == "repository":
            raise ConflictError(
                f"{name} is this repository's own already",
                code="file_exists",
                hint=f"change it in {OWN_TEMPLATES}/{name}",
            )
        files = catalogue.files(kind)
        inside = f"{style}/" if style else ""
        chosen = {
            p: d for p, d in files.items() if p.startswith(inside) and (style or "/" not in p)
        }
        changes = [
            Change(f"{OWN_TEMPLATES}/{kind}/{path}", "created", None, data)
            for path, data in chosen.items()
        ]
        taken = [change.path for change in changes if (work.root / change.path).exists()]
        if taken:
            raise ConflictError(f"{taken[0]} exists already", code="file_exists")
        work.apply(changes)
        manifest = "template.toml" if style else "kind.toml"
        why = (
            "change it, and raise its version: `scaffold update` then merges it into what was made"
        )
        work.report.next = (Step(f"{OWN_TEMPLATES}/{kind}/{inside}{manifest}", 1, why),)
    return work.report


def recover_target(keep_edited: bool, options: Options) -> Report:
    """Settles a run that was cut short: it is finished, or undone."""
    target = options.find()
    report = Report("recover", describe(target), dry_run=options.dry_run)
    if options.dry_run:
        report.warnings = leftover_warning(target.root)
        report.text = "" if report.warnings else "nothing to recover\n"
        return report
    settled = settle(target.root, "recover", keep_edited=keep_edited)
    report.extra["recovered"] = settled or "nothing"
    report.text = f"the interrupted run was {settled}\n" if settled else "nothing to recover\n"
    return report


def uninstall(options: Options) -> Report:
    """Drops everything that the tool remembers here, and leaves the code."""
    with _at_work("uninstall", options) as work:
        made = work.root / FOLDER / "made"
        paths = [path for path in sorted(made.rglob("*")) if path.is_file()]
        attributes = work.root / ATTRIBUTES
        paths += [attributes] * attributes.is_file()
        work.apply(
            [
                Change(path.relative_to(work.root).as_posix(), "record", path.read_bytes(), None)
                for path in paths
            ]
        )
        report = work.report
        count = len([path for path in paths if path.suffix == ".toml"])
        report.extra["forgotten"] = count
        verb = "would be" if options.dry_run else "is" if count == 1 else "are"
        noun = "unit" if count == 1 else "units"
        report.text = f"{count} {noun} {verb} forgotten; the code stays as it is\n"
        if (work.root / OWN_TEMPLATES).is_dir():
            report.warnings += (f"{OWN_TEMPLATES} holds templates of your own and stays",)
        if (kept := backups_folder(work.root)).is_dir():
            report.warnings += (f"{kept} holds copies of edited files and stays",)
        if work.target.layout == "project":
            why = "the table [tool.scaffold] is yours: delete it, or keep it to come back"
            step = Step("pyproject.toml", _table_line(work.root), why)
            report.next = (step,)
            report.text += f"next       {step.file}:{step.line}  {step.why}\n"
        if work.opened is not None:
            work.opened.forget()
    return report


def _is_named(unit: Unit, discard: Iterable[str]) -> bool:
    """Tells whether ``--discard-edits`` names a unit.

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


def _settings(settings: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in settings:
        name, is_pair, value = text.partition("=")
        if not is_pair:
            raise RequestError(
                f"--set {text!r} is no pair of a name and a value",
                code="usage",
                hint="scaffold update ID --set NAME=VALUE",
            )
        found[name.replace("-", "_")] = value
    return found


def _read(root: Path, file: str) -> bytes:
    try:
        return (root / file).read_bytes()
    except OSError as error:
        raise ConflictError(
            f"the registry {file} cannot be read: {error.strerror}",
            code="registry_missing",
            hint="take it back from version control",
        ) from error


def _table_line(root: Path) -> int:
    rows = (root / "pyproject.toml").read_text(encoding="utf-8-sig").splitlines()
    return next((n for n, row in enumerate(rows, 1) if row.startswith("[tool.scaffold")), 1)
