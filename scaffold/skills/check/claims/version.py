"""Versions in text: the lowest of a language, exact pins of packages, the project's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.project.project import Version, as_version, normal_name
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.command_words import find_commands
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block
from scaffold.skills.check.sentence import sentence_around

_NUMBER = r"v?(?P<version>\d+(?:\.\d+){0,2})"
_FLOOR = lazy_re(
    r"\b(?P<tool>(?-i:Python|Node(?:\.js)?|Go|Rust))\**:?\**\s*(?:version\s*)?"
    r"(?P<sign>>=|≥|at least)?\s*"
    rf"{_NUMBER}(?![\d.]*[a-z\d])\s*(?P<more>\+|(?:or|and)\s+(?:newer|later|higher|above|greater|up))?",
    re.IGNORECASE,
)
_REQUIRED = lazy_re(r"\b(?:requires?|needs?|must have|minimum|is required|are required)\b", re.I)
_HEADING = lazy_re(r"prerequisite|requirement|tech(?:nology)? stack|environment|setup", re.I)
_OTHERWISE = lazy_re(
    r"\b(?:no longer|not|drop\w*|deprecat\w+|legacy|old(?:er)?|your|example|e\.g|upstream|target\w*"
    r"|users?|generated|plugin|template|if|except|unless|was|were|previously|syntax|style|hints?"
    r"|features?|unions?|f-strings?|generics?|pattern matching|compatib\w+|typing|annotations?"
    r"|walrus|idioms?|only when|instead|below|least one|client|server|sdk|example|each)\b|<",
    re.IGNORECASE,
)
_PIN = lazy_re(
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,.-]+\])?==(?P<version>\d[\w.!+]*)(?![\w.*])"
)
_ANOTHER = lazy_re(
    r"\b(?:old(?:er)?|legacy|previous\w*|example|e\.g|your|instead|not|never|up-?grad\w*|down-?grad\w*"
    r"|before|bisect\w*|broken|bug|issue|if|work-?around|newer|conflicts?|compatib\w*|was|were"
    r"|reproduc\w*|test(?:ed)? with|specific version|such as|bump\w*|from|migrat\w*|then|change)\b",
    re.IGNORECASE,
)
_OWN = lazy_re(
    r"\b(?:current version|(?:this|the) (?:package|project)(?:'s)? version)\**\s*(?:is|:)?\**:?\s*"
    r"`?v?(?P<version>\d+\.\d+\.\d+[\w.+-]*\w|\d+\.\d+\.\d+)`?",
    re.IGNORECASE,
)
_VERSION = r"v?(?P<version>\d+\.\d+(?:\.\d+)?(?:[\w.+-]*\w)?)"
_NAMED = tuple(
    lazy_re(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bversion\s+`?{_VERSION}`?\s+of\s+(?:the\s+)?`?(?P<name>[A-Za-z][\w.-]*\w)",
        rf"`(?P<name>[A-Za-z][\w.-]*\w)`\s+(?:is\s+|has\s+)?(?:now\s+|currently\s+)?(?:at\s+)?version\s+`?{_VERSION}",
    )
)
_PAST = lazy_re(
    r"\b(?:since|in|before|after|until|from|as of|introduced|added|removed|deprecated|fixed|changed"
    r"|requires?|needs?|older|newer|up-?grad\w*|with|against|than|was|were|had)\b",
    re.IGNORECASE,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "poetry", "pdm", "conda", "mamba", "pipx", "rye"})
_TOOLS = {"python": "python", "node": "node", "node.js": "node", "go": "go", "rust": "rust"}


class Given(NamedTuple):
    """A version that a text gives.

    Args:
        what: Of what kind it is.
        name: The tool or package.
        version: As written.
        silent: Why it claims nothing, or empty.
    """

    what: Literal["floor", "pin", "own", "named"]
    name: str
    version: str
    silent: str


def find_versions(document: Document) -> Iterator[Claim]:
    """Yield the versions that a document about its own repository gives."""
    if not document.is_about_here:
        return
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item", "cell"):
            yield from _floors(block)
            if "version" in block.text.lower():
                yield from _named(block)
                if document.kind in ("guide", "page"):
                    yield from _own(block)
    for span in document.markdown.codes:
        if found := _PIN.fullmatch(span.text):
            silent = _why_another(" ".join(sentence_around(span)))
            yield _pin(found, span.line, span.column, silent)
    for command in find_commands(document):
        # Others are given the version that is to come: `tool upgrade torch==3.0`.
        installs = any(word.text.rpartition("/")[2] in _INSTALLERS for word in command.words[:4])
        for word in command.words if installs else ():
            if word.is_sure and (found := _PIN.fullmatch(word.text)):
                silent = command.silent if command.is_wrong else ""
                yield _pin(found, command.line_of(word), command.column, silent)


def _floors(block: Block) -> Iterator[Claim]:
    text = block.text.replace("`", "")
    if not any(each in text for each in ("Python", "Node", "Go", "Rust")):
        return
    under = " ".join(block.headings[-1:])
    for sentence in re.finditer(r"[^\n]+?(?:[.;!?](?=\s|$)|\n|$)", text):
        for found in _FLOOR.finditer(sentence.group()):
            is_floor = bool(found["sign"] or found["more"])
            is_listed = block.kind in ("item", "cell") and _HEADING.search(under) and is_floor
            is_version = is_floor or "." in found["version"] + found["tool"]
            if not is_version:
                continue  # "Node 1" is a machine
            if not (_REQUIRED.search(sentence.group()) or is_listed):
                continue
            tool = _TOOLS[found["tool"].lower()]
            silent = "it may be of something else" if _OTHERWISE.search(sentence.group()) else ""
            line = block.line + text.count("\n", 0, sentence.start() + found.start())
            data = Given("floor", tool, found["version"], silent)
            yield Claim("version", found.group().strip(), line, 1, data)


def _own(block: Block) -> Iterator[Claim]:
    for found in _OWN.finditer(block.text):
        line = block.line + block.text.count("\n", 0, found.start())
        data = Given("own", "the project", found["version"], "")
        yield Claim("version", found.group().strip("`"), line, 1, data)


def _named(block: Block) -> Iterator[Claim]:
    for pattern in _NAMED:
        for found in pattern.finditer(block.text):
            sentence = re.split(r"(?<=[.;!?])\s", block.text[: found.start()])[-1]
            silent = _why_another(sentence)
            if not silent and _PAST.search(sentence):
                silent = "it may be said of the past"
            line = block.line + block.text.count("\n", 0, found.start("version"))
            data = Given("named", found["name"], found["version"], silent)
            yield Claim("version", found.group().replace("`", ""), line, 1, data)


def _pin(found: re.Match[str], line: int, column: int, silent: str) -> Claim:
    data = Given("pin", found["name"], found["version"], silent)
    return Claim("version", found.group(), line, column, data)


def _why_another(words: str) -> str:
    return "it may be another version on purpose" if _ANOTHER.search(words) else ""


def judge_version(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a version: is it that of the project's own files?"""
    given: Given = claim.data
    if given.what == "floor":
        return _judge_floor(given, claim, repository)
    if given.what == "own":
        known = {version: path for path, version in repository.project.own_versions.items()}
    elif given.what == "named":
        known = repository.project.versions_by_name.get(normal_name(given.name), {})
    else:
        known = repository.project.pins.get(normal_name(given.name), {})
    if not known:
        return Verdict.open(f"no file of the project says which version {given.name} has")
    asked = as_version(given.version)
    for version, path in known.items():
        same = as_version(version)
        if version == given.version or same == asked or _begins(given, same, asked):
            return Verdict.holds(f"{path} says so")
    if given.silent:
        return Verdict.open(given.silent)
    if given.what == "pin":
        known = {
            version: path
            for version, path in known.items()
            if repository.project.is_general(path, document.path) or path in document.text
        }
    if not known:
        return Verdict.open("it is pinned for another use only")
    version, path = next(iter(known.items()))
    fix = Fix(claim.line, given.version, version, is_safe=False) if len(known) == 1 else None
    return _differs(claim, f"{path} says {version}", fix)


def _begins(given: Given, known: Version, asked: Version) -> bool:
    """Return whether a version of prose, "2.1 of x", is the beginning of the one that is known."""
    return given.what == "named" and asked == known[: len(asked)]


def _judge_floor(given: Given, claim: Claim, repository: Repository) -> Verdict:
    floors = repository.project.floors(given.name)
    if not floors:
        return Verdict.open(f"no file of the project says which {given.name} it needs")
    asked = as_version(given.version)
    for path, floor in floors.items():
        # "Node 20" is said of 20.11, and "Python 3.11" of 3.11.4.
        if asked == floor[: len(asked)] or floor == asked[: len(floor)]:
            return Verdict.holds(f"{path} says so")
    if any(floor < asked for floor in floors.values()):
        return Verdict.open("it asks for more than the project's files do, which may be meant so")
    if given.silent:
        return Verdict.open(given.silent)
    path, floor = min(floors.items(), key=lambda each: (each[1], each[0].count("/")))
    now = ".".join(map(str, floor))
    fix = Fix(claim.line, given.version, now, is_safe=False)
    return _differs(claim, f"{path} asks for {now}", fix)


def _differs(claim: Claim, evidence: str, fix: Fix | None) -> Verdict:
    message = f"{claim.text!r} is another version than the project's"
    return Verdict.fails("version-differs", message, evidence, now=evidence, fix=fix)


VERSIONS = Kind("version", find_versions, judge_version)
