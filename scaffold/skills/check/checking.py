"""The check itself: documents -> claims -> verdicts -> findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaffold.analysis.files.globs import matches
from scaffold.analysis.repository import Repository
from scaffold.findings import Finding
from scaffold.skills.check.claim import Judged
from scaffold.skills.check.documents import Document, Unreadable, find_documents
from scaffold.skills.check.memory import (
    Memory,
    Remembered,
    document_key,
    identity_of,
    recall_memory,
    stamps,
)
from scaffold.skills.check.pack_form import check_pack, copies
from scaffold.skills.check.settings import Settings, read_settings
from scaffold.skills.check.sharing import work_through


@dataclass
class Outcome:
    """What a check found.

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
    """One document to check.

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
    """Yield what is found in each document: what is known of it, or else what a check finds."""
    keys = [document_key(task.document, task.across, is_copy=task.is_copy) for task in tasks]
    known = [memory.recall(key) for key in keys]
    open_tasks = [task for task, each in zip(tasks, known, strict=True) if each is None]
    files = repository.files

    def work(task: Task) -> dict[str, Any]:
        from scaffold.skills.check.judging import check_copy, check_document

        files.take_looked_into()
        if task.is_copy:
            found = check_copy(task.document, settings, task.across)
        else:
            found = check_document(task.document, repository, settings, task.across)
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
