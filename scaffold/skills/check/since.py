"""What a change broke: claims that held at a revision and do not hold now, and names that went.

The documents are those of today; the repository is asked twice, as it is and as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from scaffold.analysis.files.revision import revision_files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Finding
from scaffold.skills.check.checking import Outcome
from scaffold.skills.check.judging import judge_document
from scaffold.skills.check.read.documents import Document, find_documents
from scaffold.skills.check.reference import REFUTED
from scaffold.skills.check.rules import fault

_CALL = lazy_re(r"^(?:[\w.]+\.)?(?P<name>[A-Za-z_]\w+)(?:\(.*\))?$")
# Names that stand for nothing of this repository when they are alone in a sentence.
_SHORTEST = 4


class Gone(NamedTuple):
    """A definition that a change took away."""

    path: str
    line: int


def since(outcome: Outcome, repository: Repository, revision: str) -> Outcome:
    """Return the part of an outcome that is the doing of what came after a revision.

    Args:
        outcome: Of the repository as it is.
        repository: The repository as it is.
        revision: Any name of a commit that git knows.

    Raises:
        RequestError: git knows no such revision.
    """
    old_files = revision_files(repository.root, revision)
    try:
        return _since(outcome, repository, Repository(old_files))
    finally:
        old_files.close()


def _since(outcome: Outcome, repository: Repository, before: Repository) -> Outcome:
    documents = {each.path: each for each in find_documents(repository.files)[0]}
    pages = [path for path in outcome.judged if path not in documents]
    documents.update({each.path: each for each in find_documents(repository.files, pages)[0]})
    wrong = {finding.path for finding in outcome.findings}
    held = {
        path: _not_false(document, before) for path, document in documents.items() if path in wrong
    }
    kept = [
        each
        for each in outcome.findings
        if (each.claim, each.line, each.column) in held.get(each.path, frozenset())
    ]
    gone = _gone(repository, before)
    checked = [document for path, document in documents.items() if path in outcome.judged]
    told = {(each.path, each.line) for each in kept}
    kept += [
        finding
        for document in checked
        for finding in _named(document, gone)
        if (finding.path, finding.line) not in told
    ]
    kept.sort(key=lambda each: (each.path, each.line, each.column))
    return replace(outcome, findings=kept)


def _not_false(document: Document, before: Repository) -> frozenset[tuple[str, int, int]]:
    """Return the claims of a document that the earlier repository does not refute."""
    return frozenset(
        each.reference[1:4]
        for each in judge_document(document, before)
        if each.verdict.reason not in REFUTED | {"absent"}
    )


def _gone(repository: Repository, before: Repository) -> dict[str, Gone]:
    """Return the names that were defined, and that nothing defines any more."""
    names = {*before.python.names()}.difference(repository.python.names())
    kept = (each for each in names if len(each) >= _SHORTEST and not each.startswith("__"))
    return {name: Gone(*before.python.defined(name)[0]) for name in kept}


def _named(document: Document, gone: dict[str, Gone]) -> Iterator[Finding]:
    """Yield the places where a document names a definition that is gone, in inline code."""
    for span in document.markdown.codes:
        found = _CALL.match(span.text)
        name = found["name"] if found else ""
        if name in gone:
            yield _finding(document.path, span.line, span.column, span.text, gone[name])
    for fence in document.markdown.fences:
        for offset, line in enumerate(fence.text.split("\n")):
            for name in set(re.findall(r"\b[A-Za-z_]\w{3,}\b", line)) & gone.keys():
                column = line.index(name) + 1
                yield _finding(document.path, fence.line + offset, column, name, gone[name])


def _finding(path: str, line: int, column: int, claim: str, gone: Gone) -> Finding:
    message = f"{claim!r} names what the change took away"
    evidence = f"it was in {gone.path}:{gone.line}"
    found = fault(path, line, "symbol-deleted", claim, message, evidence, column=column)
    return found._replace(now="nothing of this name is defined any more")
