"""One document: its form, its references with what the files alone say of them.

Nothing of this is imported where every document is known from an earlier check.
"""

from __future__ import annotations

import zlib

from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.form import check_form
from scaffold.skills.check.intent import intent
from scaffold.skills.check.kinds import FINDERS, KINDS
from scaffold.skills.check.memory import Remembered, Task
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import REFUTED, Judged, Reference, Verdict
from scaffold.skills.check.resolve.scope import Scope
from scaffold.skills.check.settings import Settings

_RUN = frozenset({"call", "command", "option", "skill"})
"""What takes other words than it is given is there, whatever the text makes by it."""
_FILES = frozenset({"line", "node", "path", "task", "tree"})


def check_document(task: Task, repository: Repository, settings: Settings) -> Remembered:
    """Return what is found in one document; in a copy only what its source cannot have."""
    findings = [*check_form(task.document, settings), *task.across]
    judged = [] if task.is_copy else judge_document(task.document, repository)
    return Remembered(findings, judged)


def judge_document(document: Document, repository: Repository) -> list[Judged]:
    """Return every reference of a document with its verdict and its intent."""
    scope = Scope(document, repository)
    rows: list[Judged] = []
    seen: set[tuple[str, str, int, int]] = set()
    for find in FINDERS:
        for reference in find(document):
            key = (reference.kind, reference.text, reference.line, reference.column)
            if key not in seen:
                seen.add(key)
                verdict = _placed(KINDS[reference.kind](reference, scope), reference)
                rows.append(_judged(reference, verdict))
    return rows


def _judged(reference: Reference, verdict: Verdict) -> Judged:
    group = _group(reference)
    # Nothing of it is told, whatever the text means.
    if verdict.asked is None and verdict.reason not in REFUTED:
        return Judged(reference, verdict, group=group)
    near, wide = intent(reference)
    if verdict.reason in ("contradicts", "moved") and reference.kind in _RUN:
        near = "asserts" if near == "makes" else near
        wide = "asserts" if wide == "makes" else wide
    right = verdict.fix.after if verdict.fix is not None else verdict.now.rpartition(" ")[2]
    if right and _names(reference, right):
        near = wide = "denies"  # "`new.py`, formerly `old.py`": the text has both
    return Judged(reference, verdict, near, wide, group)


def _names(reference: Reference, right: str) -> bool:
    """Return whether what would be right is beside a reference, in the same paragraph."""
    span = reference.span
    if span is None:
        return False
    beside = "\0".join([span.before, span.after, *(each for each in span.block.row)])
    # A name may be with what it is a member of; behind the dot of a file is how it ends.
    is_file = reference.kind in _FILES or "/" in right
    is_member = not is_file and f".{right.rpartition('.')[2]}`" in beside
    return f"`{right}`" in beside or is_member


def _group(reference: Reference) -> int:
    """Return a number that all references of one list, table, paragraph or block share."""
    if reference.block is not None:
        return reference.block.line
    block = reference.span.block if reference.span is not None else None
    if block is None:
        return reference.line
    if block.kind in ("item", "cell"):
        key = "\0".join(
            [*block.headings, "\1", *block.intros, block.lead if block.kind == "cell" else ""]
        )
        return -zlib.crc32(key.encode("utf-8", "surrogateescape")) - 1
    return block.line


def _placed(verdict: Verdict, reference: Reference) -> Verdict:
    """Return a verdict with its fix at the line of its reference, where it names none."""
    fix = verdict.fix
    if fix is None or fix.line:
        return verdict
    return verdict._replace(fix=Fix(reference.line, fix.before, fix.after, fix.is_safe))
