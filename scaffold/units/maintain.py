"""Eject a template, trust a repository, settle an interrupted run, leave a repository."""

from __future__ import annotations

from pathlib import Path

from scaffold.errors import ConflictError, ScaffoldError
from scaffold.report import Report, Step
from scaffold.target.formatters import VENV, find_formatters
from scaffold.target.target import describe, find_target
from scaffold.target.trust import Trust, trust_file
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.transaction.apply import settle
from scaffold.transaction.backup import backups_folder
from scaffold.transaction.change import FOLDER, Change
from scaffold.transaction.leftovers import leftover_warning
from scaffold.transaction.state import has_journal
from scaffold.units.context import Options
from scaffold.units.ledger import ATTRIBUTES
from scaffold.units.work import at_work


def eject_template(name: str, options: Options) -> Report:
    """Copy a template into the repository, where it may be changed and comes first."""
    kind, _, style = name.partition("/")
    with at_work(f"eject {name}", options) as work:
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
        # A style alone, or the kind's manifest with what its styles share: files without a folder.
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
            "change it, and raise its version: `scaffold update` then merges the change into units"
        )
        work.report.next = (Step(f"{OWN_TEMPLATES}/{kind}/{inside}{manifest}", 1, why),)
    return work.report


def trust_target(is_revoked: bool, options: Options) -> Report:
    """Let the programs run that the target names, or no longer; remembered outside of it."""
    target = options.find()
    report = Report("trust", describe(target), dry_run=options.dry_run)
    named = find_formatters(target.root, target.format)
    found = [each for each in named if not each.is_harmless(target.root)]
    has_venv = (target.root / VENV).is_dir()
    trust = Trust() if is_revoked else Trust(frozenset(each.text for each in found), has_venv)
    if not options.dry_run:
        trust.write(target.root)
    rows = [f"`{each.text}` ({each.why})" for each in found if each.text in trust.commands]
    rows += [f"formatters of {VENV}"] if trust.venv else []
    lines = [f"trusted    {row}" for row in rows or ["nothing of this repository"]]
    report.text = "\n".join([*lines, f"file       {trust_file()}", ""])
    report.extra = {"trusted": rows}
    return report


def recover_target(keep_edited: bool, options: Options) -> Report:
    """Settle a run that was interrupted: it is finished, or undone.

    Such a run need not have been in a target: ``init`` and the commands of skills write to any
    repository.
    """
    root, described = _where_cut_short(options)
    report = Report("recover", described, dry_run=options.dry_run)
    if options.dry_run:
        report.warnings = leftover_warning(root)
        report.text = "" if report.warnings else "nothing to recover\n"
        return report
    settled = settle(root, "recover", keep_edited=keep_edited)
    report.extra["recovered"] = settled or "nothing"
    report.text = f"the interrupted run was {settled}\n" if settled else "nothing to recover\n"
    return report


def _where_cut_short(options: Options) -> tuple[Path, dict[str, str] | None]:
    """Return the nearest folder upwards with a journal, else the target; and its description."""
    start = (options.folder / (options.target or ".")).resolve()
    for folder in (start,) if options.target else (start, *start.parents):
        if has_journal(folder):
            try:
                return folder, describe(find_target(folder, exact=True))
            except ScaffoldError:
                return folder, None
    target = options.find()
    return target.root, describe(target)


def uninstall(options: Options) -> Report:
    """Drop everything that the tool remembers here, and leave the code."""
    with at_work("uninstall", options) as work:
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
        report.text = f"{count} {noun} {verb} forgotten; the code is unchanged\n"
        if (work.root / OWN_TEMPLATES).is_dir():
            report.warnings += (f"{OWN_TEMPLATES} has your own templates and is kept",)
        if (kept := backups_folder(work.root)).is_dir():
            report.warnings += (f"{kept} has copies of edited files and is kept",)
        # A target that is known by a layout has no table of ours.
        if work.target.layout == "project":
            why = "the table [tool.scaffold] is yours: delete it, or keep it to come back"
            step = Step("pyproject.toml", _table_line(work.root), why)
            report.next = (step,)
            report.text += f"next       {step.file}:{step.line}  {step.why}\n"
        # With --dry-run nothing is held, and nothing is forgotten.
        if work.opened is not None:
            work.opened.forget()
    return report


def _table_line(root: Path) -> int:
    rows = (root / "pyproject.toml").read_text(encoding="utf-8-sig").splitlines()
    return next((n for n, row in enumerate(rows, 1) if row.startswith("[tool.scaffold")), 1)
