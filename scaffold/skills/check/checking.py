"""The check itself: documents -> claims -> verdicts -> findings."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaffold.repository.whole import Repository
from scaffold.skills.check.allowing import apply_allowances, faults, read_allowances
from scaffold.skills.check.claim import Claim, Finding, Fix, Judged, Verdict
from scaffold.skills.check.claims.config_key import CONFIG_KEYS
from scaffold.skills.check.claims.symbols import SYMBOLS
from scaffold.skills.check.documents import Document, find_documents
from scaffold.skills.check.form import check_form, unreadable_finding
from scaffold.skills.check.kinds import KINDS
from scaffold.skills.check.memory import (
    Memory,
    Remembered,
    document_key,
    identity_of,
    recall_memory,
    stamps,
)
from scaffold.skills.check.pack_form import check_pack, copies
from scaffold.skills.check.rules import RULES
from scaffold.skills.check.settings import Settings, read_settings
from scaffold.skills.check.sharing import work_through


@dataclass
class Outcome:
    """Is what a check found.

    Args:
        findings: Everything to report, by path and line.
        judged: The claims of each document with their verdicts.
        num_documents: How many documents were read, copies too.
        num_fresh: How many of them were checked now; the others are known from an earlier check.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    judged: dict[str, list[Judged]] = field(default_factory=dict[str, list[Judged]])
    num_documents: int = 0
    num_fresh: int = 0

    @property
    def states(self) -> Counter[str]:
        """How many claims are true, false and undecided."""
        return Counter(each.verdict.state for rows in self.judged.values() for each in rows)

    @property
    def is_clean(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)


class Task(NamedTuple):
    """Is one document to check.

    Args:
        document: The document.
        across: What was found in it beside the others.
        is_copy: Whether it says what another one says, and counts there.
    """

    document: Document
    across: tuple[Finding, ...]
    is_copy: bool


def check_repository(
    repository: Repository,
    pages: Iterable[str] = (),
    settings: Settings | None = None,
    *,
    remember: bool = False,
) -> Outcome:
    """Checks all guidance of a repository.

    Args:
        repository: The repository.
        pages: Further Markdown files, relative to its root.
        settings: What to check; without them, those of the repository.
        remember: Whether what earlier checks found is used, and kept for later ones.

    Raises:
        RequestError: The repository's settings are wrong.
    """
    settings = settings or read_settings(repository.files)
    documents, unreadable = find_documents(repository.files, pages)
    documents = [each for each in documents if not _excluded(each.path, settings)]
    outcome = Outcome(num_documents=len(documents) + len(unreadable))
    found = [unreadable_finding(each) for each in unreadable if not _excluded(each.path, settings)]
    twice = copies(documents)
    across = list(check_pack(documents, repository.files))
    identity = identity_of(repository.files, settings) if remember else ""
    memory = recall_memory(repository.files, identity) if remember else Memory(repository.files)
    tasks = [
        Task(each, tuple(row for row in across if row.path == each.path), each.path in twice)
        for each in documents
    ]
    for task, known in _remembered(tasks, memory, repository, settings):
        found += known.findings
        if not task.is_copy:
            outcome.judged[task.document.path] = known.judged
    outcome.num_fresh = memory.num_new
    if remember:
        memory.write(identity)
    paths = {document.path for document in documents}
    found += [each for each in across if each.path not in paths]
    wanted = [each for each in found if settings.wants(each.rule)]
    outcome.findings = sorted(wanted, key=lambda each: (each.path, each.line, each.column))
    return outcome


def _remembered(
    tasks: Sequence[Task], memory: Memory, repository: Repository, settings: Settings
) -> Iterator[tuple[Task, Remembered]]:
    """Yields what is found in each document: what is known of it, or else what a check finds."""
    keys = [document_key(task.document, task.across, is_copy=task.is_copy) for task in tasks]
    known = [memory.recall(key) for key in keys]
    open_tasks = [task for task, each in zip(tasks, known, strict=True) if each is None]
    files = repository.files

    def work(task: Task) -> dict[str, Any]:
        files.take_looked_into()
        found = _check(task, repository, settings)
        return found.to_row(stamps(files, files.take_looked_into()))

    fresh = iter(work_through(open_tasks, work, files))
    for task, key, each in zip(tasks, keys, known, strict=True):
        yield task, each or memory.keep(key, next(fresh))


def _check(task: Task, repository: Repository, settings: Settings) -> Remembered:
    """Returns what is found in one document; of a copy, only what its source cannot have."""
    document = task.document
    findings = [*check_form(document, settings), *task.across]
    if task.is_copy:
        return Remembered(findings, [])
    judged = judge_document(document, repository)
    findings += [finding_of(each, document) for each in judged if each.verdict.state == "false"]
    allowances = read_allowances(document)
    kept = list(apply_allowances(document, findings, allowances))
    return Remembered([*kept, *faults(document, allowances)], judged)


def judge_document(document: Document, repository: Repository) -> list[Judged]:
    """Returns every claim of a document with its verdict."""
    rows: list[Judged] = []
    seen: set[tuple[str, str, int, int]] = set()
    for kind in KINDS:
        for claim in kind.find(document):
            key = (claim.kind, claim.text, claim.line, claim.column)
            if key not in seen:
                seen.add(key)
                rows.append(Judged(claim, kind.judge(claim, document, repository)))
    return list(_told_once(list(_once(rows))))


# The rules of a file that is missing; the general one gives way to what says more.
_GENERAL = "path-missing"
_SPECIAL = frozenset({"link-missing", "requirements-missing", "script-missing", "test-missing"})


def _told_once(rows: list[Judged]) -> Iterator[Judged]:
    """Yields the claims; of two that miss one file on one line, the more special is refuted."""
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
    """Yields the claims without those that another kind decides.

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
    """Returns what is reported of a refuted claim."""
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
    """Returns the fix of a verdict at the line of its claim, where it names none."""
    fix = verdict.fix
    if fix is None or fix.line:
        return fix
    return Fix(claim.line, fix.before, fix.after, fix.is_safe)


def _excluded(path: str, settings: Settings) -> bool:
    return any(
        fnmatch.fnmatch(path, pattern) or path.startswith(pattern.rstrip("/*") + "/")
        for pattern in settings.exclude
    )
