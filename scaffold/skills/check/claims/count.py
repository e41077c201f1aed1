"""Counts beside a thing that can be counted: "`REWARDS` has 14 entries", "12 files in `docs/`"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.counts import Counted, count_collection, count_folder
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.numbers import NUMBER, value_of
from scaffold.skills.check.claims.places import locate
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block, Span

_VERBS = frozenset(
    {"has", "have", "hold", "holds", "contain", "contains", "list", "lists", "define", "defines"}
    | {"register", "registers", "name", "names", "include", "includes"}
)
_VERB = rf"(?:{'|'.join(sorted(_VERBS, reverse=True))})"
_ENTRIES = (
    r"(?:(?:registered|known|supported|valid|literal)\s+)?"
    r"(?P<noun>entries|items|elements|keys|members|names|options|choices|rows|values|variants)"
)
_FILES = (
    r"(?:(?:\w+|Python|Markdown)\s+)?(?P<noun>files|modules|skills|folders|subfolders|directories"
    r"|subdirectories|packages|tests|scripts|examples|templates|recipes|workflows|agents|subagents"
    r"|commands|notebooks|documents|pages|guides|migrations|rules|records|decisions|benchmarks)"
)
_IN_FILE = r"(?:,?\s+\(?in\s+`(?P<file>[\w./@-]+\.pyi?)`\)?)?"
_NAME_HAS = lazy_re(
    rf"^{_IN_FILE},?\s+(?:currently\s+|now\s+)?{_VERB}\s+(?:exactly\s+)?{NUMBER}\s+{_ENTRIES}\b",
    re.IGNORECASE,
)
_FOLDER_HAS = lazy_re(
    rf"^\s+(?:folder\s+|directory\s+)?(?:currently\s+|now\s+)?{_VERB}\s+(?:exactly\s+)?{NUMBER}"
    rf"\s+{_FILES}\b(?!\s*/|\s+(?:per|each|for every|or more|or fewer))",
    re.IGNORECASE,
)
_INSIDE = frozenset({"in", "of", "under", "below", "inside"})
# The words in front say whether all are meant: "the first 3 files in", "about 12 files in".
_ALL = r"(?:^|[.:(;,]\s*|\b(?:the|all|are|these|of|is)\s+)"
_IN_NAME = lazy_re(
    rf"{_ALL}{NUMBER}\s+{_ENTRIES}\s+(?:in|of)\s+(?:the\s+)?\Z", re.IGNORECASE | re.MULTILINE
)
_IN_FOLDER = lazy_re(
    rf"{_ALL}{NUMBER}\s+{_FILES}\s+(?:in|under|below|inside)\s+(?:the\s+)?\Z",
    re.IGNORECASE | re.MULTILINE,
)
_PACK_HAS = lazy_re(
    r"\b(?:this|the)\s+(?:repo(?:sitory)?|pack|plugin|project|collection)\s+"
    rf"(?:has|holds|contains|ships|provides|includes|offers|bundles)\s+(?:exactly\s+)?{NUMBER}\s+"
    r"(?:agent\s+|slash\s+|expert\s+)?(?P<noun>skills|agents|subagents|commands)\b(?!\s*/|\s+(?:per|for|in|each|by|from|of)\b)",
    re.IGNORECASE,
)
_VARIABLE = lazy_re(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# A plain word may be any variable of an example.
_TELLING = lazy_re(r"^[A-Z]|\.[A-Z]")
_PATH = lazy_re(r"\.{0,2}/?[\w.@-]+(?:/[\w.@-]+)*/?")
PARTLY = lazy_re(
    r"\b(?:at least|at most|up to|more than|fewer than|less than|about|around|approximately|roughly"
    r"|nearly|almost|over|first|last|next|other|another|additional|extra|initially|originally|add"
    r"|adds|added|limit|maximum|minimum|max|min|per|each)\b",
    re.IGNORECASE,
)
"""Words beside a number that make it that of some, or a bound."""


class Count(NamedTuple):
    """A number with what it counts.

    Args:
        number: The number.
        written: How it is written.
        of: The variable, folder or kind of guidance.
        file: The source of the variable, or None.
        what: "collection", "folder" or "pack".
        silent: Why it claims nothing, or empty.
    """

    number: int
    written: str
    of: str
    file: str | None
    what: str
    silent: str


def find_counts(document: Document) -> Iterator[Claim]:
    """Yield the numbers that a text gives beside a name, a folder or the pack."""
    for span in document.markdown.codes:
        behind, before = _is_counted_behind(span), _is_counted_before(span)
        if not (behind or before) or is_placeholder(span.text):
            continue
        if _VARIABLE.fullmatch(span.text):
            found = (behind and _NAME_HAS.match(span.after)) or (
                before and _IN_NAME.search(span.before[-160:])
            )
            if found and (_TELLING.search(span.text) or found.groupdict().get("file")):
                yield _claim("collection", found, span)
                continue
        if _PATH.fullmatch(span.text):
            found = (behind and _FOLDER_HAS.match(span.after)) or (
                before and _IN_FOLDER.search(span.before[-160:])
            )
            if found:
                yield _claim("folder", found, span)
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item") and document.is_about_here:
            yield from _pack_claims(block)


def _is_counted_behind(span: Span) -> bool:
    """Return whether a verb of having is near, without which no expression fits: it is cheaper."""
    return not _VERBS.isdisjoint(span.after[:200].lower().split())


def _is_counted_before(span: Span) -> bool:
    """Return whether the words before end as in "14 entries in the", which is as cheap."""
    words = span.before[-40:].lower().split()
    last = words[-2:-1] if words[-1:] == ["the"] else words[-1:]
    return bool(last) and last[0] in _INSIDE


def _claim(what: str, found: re.Match[str], span: Span) -> Claim:
    file = found.groupdict().get("file")
    sentence = f"{span.before[-80:]} {found.group()}"
    silent = silence(span) or ""
    if not silent and PARTLY.search(re.split(r"[.;]\s", sentence)[-1]):
        silent = "the number may be that of some of them"
    data = Count(value_of(found["number"]), found["number"], span.text, file, what, silent)
    text = f"{span.text}: {found['number']} {found['noun']}"
    return Claim("count", text, span.line, span.column, data)


def _pack_claims(block: Block) -> Iterator[Claim]:
    for found in _PACK_HAS.finditer(block.text):
        noun = found["noun"].lower()
        data = Count(value_of(found["number"]), found["number"], noun, None, "pack", "")
        line = block.line + block.text.count("\n", 0, found.start("number"))
        yield Claim("count", f"{found['number']} {noun}", line, 1, data)


def judge_count(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a number: does any way of counting give it?"""
    count: Count = claim.data
    counted = _counted(count, document, repository)
    if counted is None:
        return Verdict.open("there is nothing of this name that can be counted")
    if count.number in counted.numbers:
        return Verdict.holds(f"{counted.place} has {count.number}")
    if count.silent:
        return Verdict.open(count.silent)
    plain = counted.numbers[0]
    fix = None
    if count.what == "collection" and count.written.isdigit():
        fix = Fix(claim.line, count.written, str(plain), is_safe=False)
    return Verdict.fails(
        "count-differs",
        f"the number in {claim.text!r} is another",
        f"{counted.place} has {plain}",
        now=f"there are {plain}",
        confidence="high" if count.what == "collection" else "medium",
        fix=fix,
    )


def _counted(count: Count, document: Document, repository: Repository) -> Counted | None:
    if count.what == "pack":
        return _count_pack(count.of, repository)
    if not document.is_about_here:
        return None
    if count.what == "collection":
        place = locate(count.file, document, repository) if count.file else None
        if count.file and place is None:
            return None
        name = count.of.rpartition(".")[2]
        return count_collection(name, place.path if place else None, repository)
    clean = count.of.rstrip("/")
    place = locate(clean, document, repository)
    if place is None or place.path not in repository.files.folders:
        return None
    # A folder that is named by its last part only may be any of several.
    several = sum(each.endswith(f"/{clean}") for each in repository.files.folders)
    if place.path != clean and several > 1:
        return None
    return count_folder(place.path, repository.files)


def _count_pack(noun: str, repository: Repository) -> Counted | None:
    names = {
        "skills": repository.skill_names,
        "agents": repository.agent_names,
        "subagents": repository.agent_names,
        "commands": repository.command_names,
    }[noun]
    folders = _folders(noun, repository)
    if not names:
        return None
    return Counted((len(names), *folders), f"the repository's set of {noun}")


def _folders(noun: str, repository: Repository) -> list[int]:
    """Return how many there are in each folder that holds any."""
    if noun == "skills":
        paths = [path.rpartition("/")[0] for path in repository.files.by_name.get("SKILL.md", ())]
    else:
        paths = [path for path in repository.files.paths if path.endswith((".md", ".toml"))]
    parents = [path.rpartition("/")[0] for path in paths]
    return [parents.count(parent) for parent in set(parents)]


COUNTS = Kind("count", find_counts, judge_count)
