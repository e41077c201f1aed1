"""One document: its form, its claims with their verdicts, and the findings that follow.

Nothing of this is imported where every document is known from an earlier check.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.analysis.repository import Repository
from scaffold.findings import Finding, Fix
from scaffold.skills.check.allowing import apply_allowances, faults, read_allowances
from scaffold.skills.check.claim import Claim, Judged, Verdict
from scaffold.skills.check.claims.config_key import CONFIG_KEYS
from scaffold.skills.check.claims.symbols import SYMBOLS
from scaffold.skills.check.documents import Document
from scaffold.skills.check.form import check_form
from scaffold.skills.check.kinds import KINDS
from scaffold.skills.check.memory import Remembered
from scaffold.skills.check.rules import RULES
from scaffold.skills.check.settings import Settings
from scaffold.skills.check.written import unless_written


def check_document(
    document: Document, repository: Repository, settings: Settings, across: tuple[Finding, ...]
) -> Remembered:
    """Return what is found in one document.

    Args:
        document: The document.
        repository: The repository it stands in.
        settings: What to check.
        across: What was found in it beside the others.
    """
    findings = [*check_form(document, settings), *across]
    judged = judge_document(document, repository)
    findings += [finding_of(each, document) for each in judged if each.verdict.state == "false"]
    allowances = read_allowances(document)
    kept = list(apply_allowances(document, findings, allowances))
    return Remembered([*kept, *faults(document, allowances)], judged)


def check_copy(document: Document, settings: Settings, across: tuple[Finding, ...]) -> Remembered:
    """Return what is found in a copy of another document: only what its source cannot have."""
    return Remembered([*check_form(document, settings), *across], [])


def judge_document(document: Document, repository: Repository) -> list[Judged]:
    """Return every claim of a document with its verdict."""
    rows: list[Judged] = []
    seen: set[tuple[str, str, int, int]] = set()
    for kind in KINDS:
        for claim in kind.find(document):
            key = (claim.kind, claim.text, claim.line, claim.column)
            if key not in seen:
                seen.add(key)
                verdict = kind.judge(claim, document, repository)
                rows.append(Judged(claim, unless_written(claim, verdict, document)))
    return list(_told_once(list(_once(rows))))


# The rules of a file that is missing; the general one gives way to what says more.
_GENERAL = "path-missing"
_SPECIAL = frozenset({"link-missing", "requirements-missing", "script-missing", "test-missing"})


def _told_once(rows: list[Judged]) -> Iterator[Judged]:
    """Yield the claims; of two that miss one file on one line, the more special is refuted."""
    special = {(row.claim.line, _file_of(row)): row for row in rows if row.verdict.rule in _SPECIAL}
    for row in rows:
        other = special.get((row.claim.line, _file_of(row)))
        if other is not None and row.verdict.rule == _GENERAL:
            yield Judged(row.claim, Verdict.open(f"{other.verdict.rule} tells it already"))
        else:
            yield row


def _file_of(row: Judged) -> str:
    name = (row.claim.text.split() or [""])[-1]
    return name.removeprefix("./").partition("#")[0].partition("::")[0]


def _once(rows: list[Judged]) -> Iterator[Judged]:
    """Yield the claims without those that another kind decides.

    A dotted name may be of code or a key of a configuration, and its text does not say which.
    """
    either = (SYMBOLS.name, CONFIG_KEYS.name)
    decided = {
        (row.claim.line, row.claim.column)
        for row in rows
        if row.claim.kind in either and row.verdict.state != "undecided"
    }
    for row in rows:
        is_open = row.claim.kind in either and row.verdict.state == "undecided"
        if not is_open or (row.claim.line, row.claim.column) not in decided:
            yield row


def finding_of(judged: Judged, document: Document) -> Finding:
    """Return what is reported of a refuted claim."""
    claim, verdict = judged.claim, judged.verdict
    assert verdict.rule in RULES, f"no rule {verdict.rule!r}"
    severity = RULES[verdict.rule].severity
    if verdict.confidence == "low" and severity == "error":
        severity = "warning"
    return Finding(
        document.path,
        claim.line,
        claim.column,
        verdict.rule,
        claim.text,
        verdict.message,
        verdict.reason,
        verdict.now,
        severity,
        verdict.confidence,
        _placed(verdict, claim),
    )


def _placed(verdict: Verdict, claim: Claim) -> Fix | None:
    """Return the fix of a verdict at the line of its claim, where it names none."""
    fix = verdict.fix
    if fix is None or fix.line:
        return fix
    return Fix(claim.line, fix.before, fix.after, fix.is_safe)
