"""Markers of pytest: ``@pytest.mark.slow``, ``pytest -m "not slow"``, "the `slow` marker"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.pytest_names import KNOWN_MARKERS
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.command_words import Command, find_commands
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import block_silence, is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import sentence_around

_MARK = lazy_re(r"@?pytest\.mark\.(?P<name>[A-Za-z_]\w*)(?:\(.*\))?")
_IN_CODE = lazy_re(r"\bpytest\.mark\.(?P<name>[A-Za-z_]\w*)")
_NAME = lazy_re(r"[a-z_]\w*")
_BEHIND = lazy_re(r"^\s+(?:pytest\s+|test\s+)?marker\b")
_AHEAD = lazy_re(r"\b(?:pytest|test)?\s*marker\s+$", re.IGNORECASE)
_ABOUT_TESTS = lazy_re(r"\b(?:pytest|tests?)\b", re.IGNORECASE)
_REGISTERED = lazy_re(
    r"\b(?:register|defin|declar|custom|new|introduc|unknown)\w*\b|\bpyproject|\.ini\b|\.cfg\b"
    r"|conftest|addinivalue",
    re.IGNORECASE,
)
_CALLED = lazy_re(r"\([^()]*=[^()]*\)")
_WORD = lazy_re(r"[A-Za-z_]\w*")
_LOGIC = frozenset({"and", "or", "not", "True", "False"})


def is_marker(text: str) -> bool:
    """Return whether inline code is a marker as Python has it, which is claimed as such."""
    return _MARK.fullmatch(text) is not None


def find_markers(document: Document) -> Iterator[Claim]:
    """Yield the markers that a document names in text, in commands and in Python."""
    text = document.text.lower()
    for span in document.markdown.codes if "mark" in text else ():
        if name := _in_text(span):
            silent = silence(span) or ""
            if _REGISTERED.search(" ".join(sentence_around(span))):
                silent = "it may be what the reader is told to register"
            yield from _claim(name, span.line, span.column, silent)
    for command in find_commands(document):
        yield from _in_command(command)
    for fence in document.markdown.fences if "pytest.mark" in text else ():
        if fence.info.split()[:1] in (["python"], ["py"]):
            yield from _in_python(fence)


def _in_text(span: Span) -> str:
    if found := _MARK.fullmatch(span.text):
        return found["name"]
    if not _NAME.fullmatch(span.text):
        return ""
    if not (_BEHIND.match(span.after) or _AHEAD.search(span.before[-160:])):
        return ""
    words = " ".join([*sentence_around(span), *span.block.headings[-1:]])
    return span.text if _ABOUT_TESTS.search(words) else ""


def _in_command(command: Command) -> Iterator[Claim]:
    """Yield the names behind ``pytest -m``."""
    words = command.words
    names = [each.text.rpartition("/")[2] for each in words]
    start = next((at for at, name in enumerate(names) if name in ("pytest", "py.test")), None)
    if start is None:
        return
    for option, value in zip(words[start + 1 :], words[start + 2 :], strict=False):
        if option.text == "-m" and value.is_sure:
            expression = _CALLED.sub("", value.text)
            for name in _WORD.findall(expression):
                if name not in _LOGIC:
                    yield from _claim(name, command.line_of(value), command.column, command.silent)


def _in_python(fence: Block) -> Iterator[Claim]:
    silent = block_silence(fence) or ""
    for number, line in enumerate(fence.text.split("\n"), fence.line):
        for found in _IN_CODE.finditer(line):
            yield from _claim(found["name"], number, found.start() + 1, silent)


def _claim(name: str, line: int, column: int, silent: str) -> Iterator[Claim]:
    if not is_placeholder(name):
        yield Claim("marker", name, line, column, silent)


def judge_marker(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a marker: is it registered, or does any test carry it?"""
    name, names = claim.text, repository.pytest
    # The cheap answers first: the last two read all tests, and all sources.
    if name in names.in_settings:
        return Verdict.holds(f"{names.in_settings[name]} registers it")
    if name in KNOWN_MARKERS:
        return Verdict.open("pytest or one of its plugins brings it")
    if name in names.used:
        return Verdict.holds(f"{names.used[name]} has it")
    if name in names.registered:
        return Verdict.holds(f"{names.registered[name]} registers it")
    if doubt := _doubt(name, document, repository):
        return Verdict.open(doubt)
    if claim.data:
        return Verdict.open(claim.data)
    near = _near(name, {*names.registered, *names.used} - KNOWN_MARKERS)
    return Verdict.fails(
        "marker-missing",
        f"there is no marker {name!r}",
        f"{len(names.registered)} are registered, and no test has this one",
        now=f"there is {near!r}" if near else "",
    )


def _doubt(name: str, document: Document, repository: Repository) -> str:
    """Return why a marker that is not found may be there all the same, or nothing."""
    names = repository.pytest
    if not document.is_about_here:
        return "the text may be about the tests of another repository"
    if not (set(names.registered) | set(names.used)) - KNOWN_MARKERS:
        return "the repository has no markers of its own"
    if names.is_dynamic:
        return f"{names.is_dynamic} registers markers while it runs"
    if name in names.words:
        return "the tests hold the word"
    if re.search(rf"(?:markers\b|addinivalue_line).*?\b{name}\b", document.text, re.DOTALL):
        return "the text shows how to register it"
    return names.why_foreign(name)


def _near(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.7)), "")


MARKERS = Kind("marker", find_markers, judge_marker)
