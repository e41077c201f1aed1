"""The command ``scaffold skills check``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scaffold.analysis.files.files import Files, list_files
from scaffold.analysis.python.installed import installed_files
from scaffold.analysis.repository import Repository
from scaffold.errors import RequestError
from scaffold.findings import RuleText, write_findings
from scaffold.report import Report
from scaffold.skills.check.checking import Outcome, check_repository
from scaffold.skills.check.report.human import summary, to_text
from scaffold.skills.check.report.json import to_json
from scaffold.skills.check.rules import RULES
from scaffold.skills.check.settings import Settings, check_rule_names, read_settings

# What only some options need is imported where it is needed: most checks do without.
if TYPE_CHECKING:
    from scaffold.transaction.change import Change


class CheckWish(NamedTuple):
    """What a check is asked for.

    Args:
        start: The folder it was started in, absolute.
        paths: Skills, folders or further Markdown files; none means all guidance.
        form: One of FORMATS.
        show_undecided: Whether people see the claims that could not be decided, too.
        fix: Whether the safe fixes are written.
        dry_run: Whether fixes are only shown.
        select: Only these rules, in place of those of the repository's settings.
        ignore: Not these rules, beside those of the settings.
        exclude: Not these documents, beside those of the settings.
        baseline: A file of findings that are known, or None.
        write_baseline: Where to write the findings as known, or None.
        since: A revision: only what came after it is told.
        cache: Whether what earlier checks found is used.
        python: An interpreter whose packages count for names from elsewhere, or None.
    """

    start: Path
    paths: tuple[str, ...] = ()
    form: str = "human"
    show_undecided: bool = False
    fix: bool = False
    dry_run: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    baseline: str | None = None
    write_baseline: str | None = None
    since: str | None = None
    cache: bool = True
    python: str | None = None


def check_skills(wish: CheckWish) -> Report:
    """Check the guidance of the repository around a folder.

    Raises:
        RequestError: There is no such path, options do not go together, git knows no such
            revision, or the settings or the baseline are wrong.
    """
    if wish.write_baseline and (wish.baseline or wish.since):
        message = "--write-baseline takes all findings: leave out --baseline and --since"
        raise RequestError(message, code="usage")
    root, chosen = find_root(wish)
    installed = installed_files(wish.python) if wish.python is not None else None
    repository = Repository(list_files(root), installed)
    outcome = _outcome(wish, repository, chosen)
    report = Report("skills check", dry_run=wish.dry_run)
    if wish.fix:
        from scaffold.skills.check.fixing import fix_changes

        if changes := fix_changes(outcome.findings, repository.files):
            _write(report, root, changes, wish)
            if not wish.dry_run:
                outcome = _outcome(wish, Repository(list_files(root), installed), chosen)
    if wish.write_baseline:
        _keep(report, wish, outcome)
        return report
    if wish.baseline:
        outcome = _sifted(report, wish, outcome)
    if wish.python is not None:
        report.warnings += (f"names from elsewhere are those that {wish.python} has installed",)
    report.ok = outcome.is_clean
    report.extra = to_json(outcome)
    report.text = _text(report, wish, outcome)
    return write_findings(
        report, wish.form, outcome.findings, rule_texts(), {"claims": dict(outcome.states)}
    )


class ReportWish(NamedTuple):
    """What a report is asked for.

    Args:
        start: The folder it was started in, absolute.
        path: The repository, or a part of it; None means the folder.
        form: "html" or "markdown".
        output: Where it is written; None means `skills-report` with the form's ending.
        dry_run: Whether nothing is written.
        cache: Whether what earlier checks found is used.
    """

    start: Path
    path: str | None = None
    form: str = "html"
    output: str | None = None
    dry_run: bool = False
    cache: bool = True


def report_skills(wish: ReportWish) -> Report:
    """Write a page of the claims in a repository's guidance that are false.

    Raises:
        RequestError: There is no such path, the file cannot be written, or settings are wrong.
    """
    from scaffold.skills.check.report.page import page

    paths = (wish.path,) if wish.path is not None else ()
    asked = CheckWish(wish.start, paths, cache=wish.cache)
    root, chosen = find_root(asked)
    repository = Repository(list_files(root))
    outcome = _outcome(asked, repository, chosen)
    form = "markdown" if wish.form == "markdown" else "html"
    place = wish.start / (wish.output or f"skills-report.{'md' if form == 'markdown' else 'html'}")
    report = Report("skills report", dry_run=wish.dry_run)
    if not wish.dry_run:
        try:
            place.write_text(page(outcome, repository.files, form), encoding="utf-8")
        except OSError as error:
            raise RequestError(
                f"the report {place} cannot be written: {error.strerror}",
                code="write_failed",
                hint="name a file in a folder that exists",
            ) from error
    report.extra = {**to_json(outcome), "page": str(place)}
    report.text = f"{'would be' if wish.dry_run else 'is'} written: {place}\n{summary(outcome)}\n"
    return report


def _outcome(wish: CheckWish, repository: Repository, chosen: Sequence[str]) -> Outcome:
    settings = _settings(wish, read_settings(repository.files))
    remember = wish.cache and wish.since is None and wish.python is None
    pages = _pages(chosen, repository.files)
    outcome = check_repository(repository, pages, settings, remember=remember)
    if chosen:
        outcome = narrowed(outcome, chosen)
    if wish.since is not None:
        from scaffold.skills.check.since import since

        outcome = since(outcome, repository, wish.since)
    return outcome


def _settings(wish: CheckWish, settings: Settings) -> Settings:
    check_rule_names((*wish.select, *wish.ignore), "the command line")
    return replace(
        settings,
        select=wish.select or settings.select,
        ignore=(*settings.ignore, *wish.ignore),
        exclude=(*settings.exclude, *wish.exclude),
    )


def _write(report: Report, root: Path, changes: Sequence[Change], wish: CheckWish) -> None:
    report.changes = tuple(each.reported for each in changes)
    if not wish.dry_run:
        from scaffold.transaction.apply import apply_changes

        apply_changes(root, list(changes), "skills check")


def _keep(report: Report, wish: CheckWish, outcome: Outcome) -> None:
    """Write all findings as known ones."""
    from scaffold.skills.check.baseline import baseline_text

    assert wish.write_baseline is not None, "called where it is asked for"
    path = wish.start / wish.write_baseline
    try:
        path.write_text(baseline_text(outcome.findings), encoding="utf-8")
    except OSError as error:
        raise RequestError(
            f"the baseline {path} cannot be written: {error.strerror}",
            code="write_failed",
            hint="name a file in a folder that exists",
        ) from error
    report.text = f"{len(outcome.findings)} findings are known from now on: {path}\n"
    report.extra = {"baseline": str(path), "findings": [], "known": len(outcome.findings)}


def _sifted(report: Report, wish: CheckWish, outcome: Outcome) -> Outcome:
    from scaffold.skills.check.baseline import read_baseline, sift

    assert wish.baseline is not None, "called where there is one"
    sifted = sift(outcome.findings, read_baseline(wish.start / wish.baseline))
    if sifted.num_known:
        report.warnings += (f"{sifted.num_known} known findings are left out by {wish.baseline}",)
    report.warnings += tuple(
        f"{wish.baseline} lists a finding that no longer exists: {each}" for each in sifted.stale
    )
    report.warnings += tuple(
        f"{wish.baseline} has entries of the rule {each}, which does not exist"
        for each in sifted.unknown
    )
    return replace(outcome, findings=sifted.new)


def rule_texts() -> dict[str, RuleText]:
    """Return the rules as SARIF has them."""
    return {
        name: RuleText(rule.asks, rule.why, f"docs/en/rules/{name}.md", rule.severity)
        for name, rule in RULES.items()
    }


def _text(report: Report, wish: CheckWish, outcome: Outcome) -> str:
    text = to_text(outcome, show_undecided=wish.show_undecided)
    rows = (f"fixed      {change.path}\n" for change in report.changes)
    shown = (change.diff for change in report.changes)
    return "".join(shown if wish.dry_run else rows) + text


def _pages(chosen: Sequence[str], files: Files) -> list[str]:
    """Return the Markdown that was pointed at, alone or by its folder."""
    if not chosen:
        return []
    return [
        path
        for path in files.paths
        if path.endswith((".md", ".mdc"))
        and any(path == each or path.startswith(f"{each}/") for each in chosen)
    ]


def find_root(wish: CheckWish) -> tuple[Path, list[str]]:
    """Return the repository's root, and the chosen paths relative to it.

    The root is that of git around the first path; without git, the path itself where it is a
    folder and the folder it was started in otherwise.

    Raises:
        RequestError: A path does not exist, or two are of different repositories.
    """
    places = [wish.start / path for path in wish.paths] or [wish.start]
    for place in places:
        if not os.path.lexists(place):
            raise RequestError(
                f"there is no {place}", code="target_missing", hint="name a folder or a file"
            )
    first = places[0].resolve()
    folder = first if first.is_dir() else first.parent
    root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if root is None:
        inside = first.is_relative_to(wish.start)
        root = folder if first.is_dir() and not inside else wish.start
        root = folder if wish.paths and first.is_dir() else root
    chosen: list[str] = []
    for place in places if wish.paths else []:
        real = place.resolve()
        if not real.is_relative_to(root):
            raise RequestError(f"{place} is not in {root}", code="usage")
        if real != root:
            chosen.append(real.relative_to(root).as_posix())
    return root, chosen


def narrowed(outcome: Outcome, chosen: Sequence[str]) -> Outcome:
    """Return the part of an outcome that is about the chosen files and folders."""

    def counts(path: str) -> bool:
        return any(path == each or path.startswith(f"{each}/") for each in chosen)

    judged = {path: rows for path, rows in outcome.judged.items() if counts(path)}
    findings = [each for each in outcome.findings if counts(each.path)]
    uncompared = {path: why for path, why in outcome.uncompared.items() if counts(path)}
    count = len({*judged, *(each.path for each in findings)})
    return Outcome(findings, judged, count, outcome.num_fresh, uncompared, outcome.notes)
