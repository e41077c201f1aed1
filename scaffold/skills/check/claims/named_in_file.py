"""Functions, variables and lists that a text names with their file: "`NAME` in `FILE`"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.places import locate
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Span
from scaffold.skills.check.sentence import sentence_around

_NAME = lazy_re(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<call>\([^()]*\))?")
_SOURCES = "pyi?|tsx?|jsx?|mjs|go|rs|java|kt|c|cc|cpp|h|hpp|cuh?|rb|php|swift|scala|cs|sh|lua|exs?"
_FILE = rf"(?P<file>[\w./@-]+\.(?:{_SOURCES}))"
_FUNCTIONS = "function|method|class|helper|dataclass|coroutine|decorator|protocol|struct|interface"
_VARIABLES = (
    "variable|constant|dict|dictionary|table|map|mapping|list|tuple|set|registry|array|enum"
)
_WHAT = rf"(?P<what>{_FUNCTIONS}|{_VARIABLES})"
_BEHIND = lazy_re(
    rf"^(?:\s+{_WHAT})?,?\s+"
    r"(?:\(|(?:(?:is|are)\s+)?(?:defined|declared|found|that lives?|which lives?)\s+)?"
    r"(?:in|inside|within|from)\s+(?:the\s+(?:file\s+|module\s+)?)?"
    rf"\[?`{_FILE}`(?!\s*(?:or|and)\b)"
)
_AHEAD = lazy_re(rf"\b{_WHAT}\s+(?:named\s+|called\s+)?$", re.IGNORECASE)
_OWNER = lazy_re(rf"`{_FILE}`(?:'s|’s)\s+(?:{_WHAT}\s+)?$", re.IGNORECASE)
_WHAT_BEHIND = lazy_re(rf"^\s+{_WHAT}\b", re.IGNORECASE)
_ADDED = lazy_re(
    r"\b(?:add|append|register|insert|include|put|enter|list)(?:s|ed|ing)?\b(?P<clause>[^.;]*?)"
    rf"\b(?:to|in|into|under)\s+(?:the\s+)?(?:existing\s+)?(?:{_VARIABLES})?\s*$",
    re.IGNORECASE,
)
# What is raised in a file need not be named in it.
_CLASS = lazy_re(r"[A-Z][a-z0-9]+[A-Z](?!\w*(?:Error|Exception|Warning)$)")
# The name behind these need not stand there before the work is done.
_MADE = lazy_re(
    r"\b(?:add|implement|defin|introduc|declar|set|expos|provid|extract|append|insert|call|wrap"
    r"|build|mak|import|replac|chang|extend|overrid|subclass|mock|patch|search|look|grep|find"
    r"|check|whether|should|must|would|could|may|might|need|ban|forbid|prohibit|disallow|rais"
    r"|throw|catch)\w*\b|\bno\b",
    re.IGNORECASE,
)
_NO_LIST = lazy_re(
    r"\b(?:no longer|instead|rather|not|never|don't|formerly|was|were|remov\w+|delet\w+|legacy"
    r"|creat\w+|new (?:list|dict|table|registry|map)|e\.g|example|such as|optional\w*|upstream)\b",
    re.IGNORECASE,
)
_NOT_NOW = lazy_re(r"\be\.g|\bexample\b|\bno longer\b|\bnever\b|\bnot\b|n't\b", re.IGNORECASE)
_PAST = lazy_re(r"\b(?:was|were|used to|has been|have been|optional\w*)\b", re.IGNORECASE)
_INHERITED = frozenset({"method", "class", "enum"})


class Named(NamedTuple):
    """A name with its file.

    Args:
        name: The name, dotted or not.
        file: The path as written.
        what: What the text calls it ("function", "table"), or empty.
        rule: The rule that is broken where it is not there.
        silent: Why it claims nothing, or empty.
    """

    name: str
    file: str
    what: str
    rule: str
    silent: str


def find_named_in_file(document: Document) -> Iterator[Claim]:
    """Yield the names that a text gives together with their file."""
    for span in document.markdown.codes:
        found = _NAME.fullmatch(span.text)
        if found is None or is_placeholder(found["name"]) or len(found["name"]) < 3:
            continue
        place = _BEHIND.match(span.after) or _OWNER.search(span.before[-160:])
        if place is None or is_placeholder(place["file"]):
            continue
        if "." in found["name"] and place["file"].endswith(".py"):
            continue  # dotted names of Python are claims of another kind, wherever they stand
        named = _named(found, place, span)
        if named is not None:
            text = f"{named.name} in {named.file}"
            yield Claim("named", text, span.line, span.column, named)


def _named(found: re.Match[str], place: re.Match[str], span: Span) -> Named | None:
    """Return what is claimed of a name, or None where it is not plain what it is."""
    ahead = _AHEAD.search(span.before[-160:])
    behind = _WHAT_BEHIND.match(span.after)
    what = place["what"] or (behind and behind["what"]) or (ahead and ahead["what"]) or ""
    what = what.lower()
    name = found["name"]
    before, after = sentence_around(span)
    added = _ADDED.search(before)
    if added and not found["call"]:
        silent = "the text may be about a list that is gone or to be made"
        is_silent = _NO_LIST.search(f"{added['clause']} {after}") is not None
        is_silent = is_silent or _NOT_NOW.search(before) is not None
        return Named(name, place["file"], what, "list-missing", silent if is_silent else "")
    is_function = what in _FUNCTIONS.split("|")
    if not what:
        last = name.rpartition(".")[2]
        is_function = bool(found["call"]) or re.search(r"[a-z]", last) is not None
        if is_function and not found["call"] and not _CLASS.match(last):
            return None
        if not is_function and "_" not in last:
            return None
    silent = silence(span) or ""
    if not silent and (_MADE.search(before) or _PAST.search(f"{before} {after}")):
        silent = "it may be what the reader is told to write"
    rule = "function-missing" if is_function else "variable-missing"
    return Named(name, place["file"], what, rule, silent)


def judge_named_in_file(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a name: is it in the file as a word?"""
    named: Named = claim.data
    paths = _paths(named.file, document, repository)
    if not paths:
        return Verdict.open(f"there is no {named.file} here")
    last = named.name.rpartition(".")[2]
    word = re.compile(rf"(?<!\w){re.escape(last)}(?!\w)")
    texts = [repository.files.look_into(path) for path in paths]
    for path, text in zip(paths, texts, strict=True):
        if text is None:
            return Verdict.open(f"{path} cannot be read")
        if found := word.search(text):
            line = text.count("\n", 0, found.start()) + 1
            return Verdict.holds(f"{path}:{line} has it")
    if named.silent:
        return Verdict.open(named.silent)
    if len(paths) > 1:
        return Verdict.open(f"{named.file} may be any of {len(paths)} files")
    return _missing(named, paths[0], texts[0] or "", repository)


def _missing(named: Named, path: str, text: str, repository: Repository) -> Verdict:
    last = named.name.rpartition(".")[2]
    now = ""
    if path.endswith((".py", ".pyi")):
        places = repository.python.defined(last)
        may_come = named.what in _INHERITED or "import *" in text
        if places and (may_come or "__getattr__" in text):
            return Verdict.open(f"{places[0][0]} defines it, and {path} may take it from there")
        if re.search(r"\bsetattr\(|\bexec\(|globals\(\)", text):
            return Verdict.open(f"{path} makes names while it runs")
        files = sorted({each for each, _ in places})
        now = f"{files[0]} defines it" if len(files) == 1 else ""
    what = f"{named.what} " if named.what else ""
    return Verdict.fails(
        named.rule,
        f"the {what}{named.name!r} is not in {named.file}",
        f"the word {last!r} does not occur in {path}",
        now=now,
    )


def _paths(file: str, document: Document, repository: Repository) -> list[str]:
    """Return the files that a path can mean; of one that is given in full, that one alone."""
    place = locate(file, document, repository)
    if place is None or place.path not in repository.files.paths:
        return []
    if not document.is_about_here and not place.path.startswith(f"{document.folder}/"):
        return []
    clean = file.removeprefix("./")
    same = repository.files.by_name.get(clean.rpartition("/")[2], [])
    others = [each for each in same if each.endswith(f"/{clean}")]
    is_whole = place.path == clean or place.path == f"{document.folder}/{clean}"
    return [place.path] if is_whole and "/" in clean else sorted({place.path, *others})


NAMED_IN_FILE = Kind("named", find_named_in_file, judge_named_in_file)
