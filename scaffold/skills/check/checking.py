"""The check itself: documents -> references -> verdicts -> findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaffold.analysis.files.globs import matches
from scaffold.analysis.files.history import History
from scaffold.analysis.repository import Repository
from scaffold.findings import Finding
from scaffold.skills.check.allowing import apply_allowances, faults, read_allowances
from scaffold.skills.check.decide import decide
from scaffold.skills.check.memory import (
    Memory,
    Remembered,
    Task,
    document_key,
    history_file,
    identity_of,
    recall_memory,
    stamps,
)
from scaffold.skills.check.pack_form import check_pack, copies
from scaffold.skills.check.read.documents import Unreadable, find_documents
from scaffold.skills.check.reference import HELD, Judged
from scaffold.skills.check.settings import Settings, read_settings
from scaffold.skills.check.settle import Settled, settle
from scaffold.skills.check.sharing import work_through


@dataclass
class Outcome:
    """What a check found.

    Args:
        findings: Everything to report, by path and line.
        judged: The references of each document with their verdicts.
        num_documents: How many documents were read, copies too.
        num_fresh: How many of them were checked now; the others are known from an earlier check.
        uncompared: Why each document that speaks of another place was not compared.
        notes: What of the history was not asked, in sentences.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    judged: dict[str, list[Judged]] = field(default_factory=dict[str, list[Judged]])
    num_documents: int = 0
    num_fresh: int = 0
    uncompared: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()

    @property
    def states(self) -> Counter[str]:
        """How many references are true, false and undecided."""
        return sum((states_of(rows, path) for path, rows in self.judged.items()), Counter[str]())

    def undecided(self, path: str) -> Iterator[Judged]:
        """Yield the references of a document that nothing proves and of which nothing is told."""
        for each in self.judged.get(path, ()):
            if each.verdict.reason not in HELD and decide(each, path) is None:
                yield each

    @property
    def is_clean(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)


def states_of(rows: Iterable[Judged], path: str) -> Counter[str]:
    """Return how many references of a document are true, false and undecided.

    What is refuted and not asserted, as a file that the text calls removed, is undecided.
    """
    return Counter(
        "true" if each.verdict.reason in HELD else "false" if decide(each, path) else "undecided"
        for each in rows
    )


def check_repository(
    repository: Repository,
    pages: Iterable[str] = (),
    settings: Settings | None = None,
    *,
    remember: bool = False,
) -> Outcome:
    """Check all guidance of a repository.

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
    documents = [each for each in documents if not matches(each.path, settings.exclude)]
    outcome = Outcome(num_documents=len(documents) + len(unreadable))
    found = list(_unread(unreadable, settings))
    twice = copies(documents)
    across = list(check_pack(documents, repository.files))
    history = History(repository.files, history_file(repository.root) if remember else None)
    if documents:
        history.begin()
    identity = identity_of(repository.files, settings) if remember else ""
    memory = recall_memory(repository.files, identity) if remember else Memory(repository.files)
    tasks = [
        Task(each, tuple(row for row in across if row.path == each.path), each.path in twice)
        for each in documents
    ]
    rows: dict[str, Remembered] = {}
    for task, known in _remembered(tasks, memory, repository, settings):
        rows[task.document.path] = known
    outcome.num_fresh = memory.num_new
    if remember:
        memory.write(identity)
    by_path = {each.document.path: each for each in tasks}
    try:
        found += _settled(rows, by_path, repository, history, outcome)
    finally:
        history.end()
    paths = {document.path for document in documents}
    found += [each for each in across if each.path not in paths]
    wanted = [each for each in found if settings.wants(each.rule)]
    outcome.findings = sorted(wanted, key=lambda each: (each.path, each.line, each.column))
    return outcome


def _settled(
    rows: Mapping[str, Remembered],
    tasks: Mapping[str, Task],
    repository: Repository,
    history: History,
    outcome: Outcome,
) -> Iterator[Finding]:
    """Yield the findings of all documents, once the history was asked."""
    documents = {path: task.document for path, task in tasks.items()}
    judged = {path: known.judged for path, known in rows.items() if not tasks[path].is_copy}
    settled = settle(judged, documents, repository, history)
    for path, known in rows.items():
        here = settled.get(path)
        findings = [*known.findings, *(_decided(here, path) if here is not None else ())]
        if here is not None:
            outcome.judged[path] = here.judged
            if here.why_not:
                outcome.uncompared[path] = here.why_not
        allowances = read_allowances(documents[path])
        kept = list(apply_allowances(documents[path], findings, allowances))
        yield from (_fixable(each, documents[path].lines) for each in kept)
        if not tasks[path].is_copy:
            yield from faults(documents[path], allowances)
    history.keep()
    asked = any(each.verdict.asked for every in judged.values() for each in every)
    outcome.notes = (*history.notes, *([history.why_not] if asked and history.why_not else ()))


def _fixable(finding: Finding, lines: Sequence[str]) -> Finding:
    """Return a finding without a fix whose words are not on its line, as of a drawn tree."""
    fix = finding.fix
    line = lines[fix.line - 1] if fix is not None and 0 < fix.line <= len(lines) else ""
    is_there = fix is None or finding.place_of_fix(line) is not None
    return finding if is_there else finding._replace(fix=None)


def _decided(settled: Settled, path: str) -> Iterator[Finding]:
    """Yield what is reported of one document; of links from the root, the first is the warning."""
    has_warned = False
    for judged in settled.judged:
        finding = decide(judged, path)
        if finding is None:
            continue
        if judged.verdict.reason == "written from the root":
            finding = finding.at("note") if has_warned else finding
            has_warned = True
        yield finding


def _remembered(
    tasks: Sequence[Task], memory: Memory, repository: Repository, settings: Settings
) -> Iterator[tuple[Task, Remembered]]:
    """Yield what is found in each document: what is known of it, or else what a check finds."""
    keys = [document_key(task) for task in tasks]
    known = [memory.recall(key) for key in keys]
    open_tasks = [task for task, each in zip(tasks, known, strict=True) if each is None]
    files = repository.files

    def work(task: Task) -> dict[str, Any]:
        from scaffold.skills.check.judging import check_document

        files.take_looked_into()
        found = check_document(task, repository, settings)
        return found.to_row(stamps(files, files.take_looked_into()))

    fresh = iter(work_through(open_tasks, work, files))
    for task, key, each in zip(tasks, keys, known, strict=True):
        yield task, each or memory.keep(key, next(fresh))


def _unread(unreadable: Sequence[Unreadable], settings: Settings) -> Iterator[Finding]:
    """Yield the findings for the documents that could not be read."""
    if unreadable:
        from scaffold.skills.check.form import unreadable_finding

        yield from (
            unreadable_finding(each)
            for each in unreadable
            if not matches(each.path, settings.exclude)
        )
