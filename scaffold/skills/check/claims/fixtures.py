"""Fixtures of pytest in running text: "the `tmp_repo` fixture"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.pytest_names import KNOWN_FIXTURES
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Span
from scaffold.skills.check.sentence import sentence_around

_NAME = lazy_re(r"(?P<name>[a-z_][a-z0-9_]*[a-z0-9])(?:\(\))?")
_BEHIND = lazy_re(r"^\s+(?:pytest\s+|test\s+)?fixture\b(?!\s+(?:file|data|folder|dir|path))")
_AHEAD = lazy_re(r"\bfixture\s+(?:named\s+|called\s+)?$", re.IGNORECASE)
_MADE = lazy_re(
    r"\b(?:add|defin|introduc|declar|implement|new|custom|own|should|could|would|need)\w*\b",
    re.IGNORECASE,
)


def find_fixtures(document: Document) -> Iterator[Claim]:
    """Yield the names that a text calls a fixture."""
    for span in document.markdown.codes:
        found = _NAME.fullmatch(span.text)
        if found is None or is_placeholder(span.text):
            continue
        if _BEHIND.match(span.after) or _AHEAD.search(span.before[-160:]):
            yield Claim("fixture", found["name"], span.line, span.column, _silent(span))


def _silent(span: Span) -> str:
    before, _ = sentence_around(span)
    if _MADE.search(before):
        return "it may be what the reader is told to write"
    return silence(span) or ""


def judge_fixture(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a fixture: is anything defined by its name, or does any test ask for it?"""
    name, names = claim.text, repository.pytest
    if name in KNOWN_FIXTURES:
        return Verdict.holds("pytest brings it")
    if places := repository.python.defined(name):
        return Verdict.holds(f"{places[0][0]}:{places[0][1]} defines it")
    if not document.is_about_here:
        return Verdict.open("the text may be about the tests of another repository")
    if not names.has_fixtures:
        return Verdict.open("the repository has no fixtures of its own")
    if name in names.words:
        return Verdict.open("tests ask for it: a plugin may bring it")
    if any(path.rpartition("/")[2].partition(".")[0] == name for path in repository.files.paths):
        return Verdict.open("a file is called so: it may be a fixture of another kind")
    if foreign := names.why_foreign(name):
        return Verdict.open(foreign)
    if claim.data:
        return Verdict.open(claim.data)
    return Verdict.fails(
        "fixture-missing",
        f"there is no fixture {name!r}",
        f"no source defines it, and none of {len(names.test_files)} test files asks for it",
    )


FIXTURES = Kind("fixture", find_fixtures, judge_fixture)
