"""A file of a unit in, the template for its counterpart in another unit out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath

import yaml

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.units.init.family import Family, Unit, is_test, read_text
from scaffold.units.init.python_consensus import find_consensus
from scaffold.units.init.python_source import Consensus, Cut, Source
from scaffold.units.init.spellings import (
    Evidence,
    Lexicon,
    Name,
    Piece,
    as_pattern,
    as_template,
    canon,
    compare,
    is_most,
    slots,
    without_years,
)
from scaffold.units.todos import find_todos

TITLE = 72
"""How long the line below a title is made that has a name in it."""

_RULE = re.compile(r"([=\-~^\"'`#*+.])\1{3,}\s*$")
_LONG = re.compile(r"([=\-~^\"'`#*+.])(?: \1){3,}")

PAGES = (".md", ".markdown")
PROSE = (*PAGES, ".rst", ".txt")

# How a comment is written in files that are no Python; in others nothing can be marked.
_COMMENTS = {
    **dict.fromkeys((*PAGES, ".html"), "<!-- {} -->"),
    **dict.fromkeys((".toml", ".yml", ".yaml", ".cfg", ".ini", ".sh", ".txt", ".in"), "# {}"),
    ".rst": ".. {}",
}


@dataclass(frozen=True)
class LearnedFile:
    """A file that units of the kind have.

    Args:
        common: What the paths of the units' files have in common.
        path: The one that it was learned from.
        role: "source", "test", "doc" or "data".
        to: Where it goes, as a manifest's string.
        template: Its text, None where the units have nothing in common that could be written.
        text: The part of the file that is the kind's, before its name is taken out.
        kept: How much of the file that is, from 0 to 1.
    """

    common: str
    path: str
    role: str
    to: str
    template: str | None
    text: str
    kept: float


def learn_files(family: Family, files: Mapping[str, bytes], lexicon: Lexicon) -> list[LearnedFile]:
    """Return the files that most units have, those of the unit's home first.

    Args:
        family: The units.
        files: The repository's text files.
        lexicon: How identifiers are spelled; takes in those of the files.
    """
    found: list[LearnedFile] = []
    for common, unit in family.roles().items():
        to = as_pattern(
            unit.paths[common],
            slots_of_path(unit.paths[common], unit, family, family.path_evidence(common, unit)),
        )
        if to is not None:
            found.append(_learn(family, files, lexicon, common, unit, to))
    rank = {"source": 0, "test": 1, "doc": 2, "data": 3}
    home = family.unit.home
    return sorted(
        found,
        key=lambda each: (
            not each.path.startswith(home),
            rank[each.role],
            not each.path.endswith("/__init__.py"),
            each.path.count("/"),
            each.path,
        ),
    )


def slots_of_path(path: str, unit: Unit, family: Family, evidence: Evidence):
    """Return the slots of a path; the folders above the units are the same for all."""
    found = slots(path, unit.name, family.names, evidence)
    return [each for each in found if each.start in evidence]


def role_of(path: str) -> str:
    """Return what a file is for: "source", "test", "doc" or "data"."""
    place = PurePosixPath(path)
    if place.suffix == ".py":
        is_inside = {"tests", "test"} & {*place.parts}
        return "test" if is_test(path) or is_inside else "source"
    return "doc" if place.suffix in (".md", ".markdown", ".rst") else "data"


def _learn(
    family: Family,
    files: Mapping[str, bytes],
    lexicon: Lexicon,
    common: str,
    unit: Unit,
    to: str,
) -> LearnedFile:
    path = unit.paths[common]
    text = files[path].decode("utf-8")
    others = tuple(
        (each.name, read_text(files, each.paths[common]))
        for each in family.others(unit)
        if common in each.paths
    )
    why = f"each {family.kind} has its own; see {path}"
    consensus = _python(text, unit.name, others, why) if path.endswith(".py") else None
    if consensus is None:
        consensus = _lines(path, text, unit.name, others, why)
    role = role_of(path)
    left = consensus.apply(text) if consensus is not None else ""
    if role == "test" and is_hollow(left) and not is_hollow(text):
        consensus = None
    if consensus is None:
        return LearnedFile(common, path, role, to, None, "", 0.0)
    lexicon.add(text, unit.name.pieces(text), consensus.evidence)
    template = _template(text, unit.name, family, consensus, path, lexicon)
    cut = sum(_size(text[each.start : each.end]) for each in consensus.cuts)
    kept = 1 - cut / (_size(text) or 1)
    return LearnedFile(common, path, role, to, template, left, kept)


def _size(text: str) -> int:
    """Return how much a text holds, whatever its indentation."""
    return sum(len(row.strip()) for row in text.splitlines())


def is_hollow(text: str) -> bool:
    """Return whether a text holds no code, so that the file had better be written by a person."""
    rows = (row.strip() for row in text.splitlines())
    return not any(row and not row.startswith("#") for row in rows)


@lru_cache(maxsize=256)
def _python(
    text: str, name: Name, others: tuple[tuple[Name, str], ...], why: str
) -> Consensus | None:
    try:
        own = Source(text, name)
        sources = [source for each, other in others if (source := _source(other, each))]
        found = find_consensus(own, sources, why)
        find_todos("x.py", found.apply(text))
    except (SyntaxError, ValueError):
        return None
    return found


@lru_cache(maxsize=512)
def _source(text: str, name: Name) -> Source | None:
    try:
        return Source(text, name)
    except (SyntaxError, ValueError):
        return None


# ---- text that is no Python ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _lines(
    path: str, text: str, name: Name, others: tuple[tuple[Name, str], ...], why: str
) -> Consensus | None:
    """Keep the lines that most have; None where the rest is no file of its sort."""
    rows = text.splitlines(keepends=True)
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    own = [name.pieces(row) for row in rows]
    votes = [0] * len(rows)
    evidence: Evidence = {}
    for other, theirs in others:
        pieces = [other.pieces(row) for row in theirs.splitlines()]
        mine, given = ([_line_form(canon(row)) for row in side] for side in (own, pieces))
        matcher = SequenceMatcher(None, mine, given, autojunk=False)
        for at, there, size in matcher.get_matching_blocks():
            for step in range(size):
                votes[at + step] += 1
                shifted = [
                    p._replace(start=p.start + starts[at + step], end=p.end + starts[at + step])
                    for p in own[at + step]
                ]
                seen = compare(shifted, pieces[there + step], other.key) or {}
                for offset, each in seen.items():
                    evidence.setdefault(offset, []).append(each)
    stays = [
        not row.strip() or is_most(count, len(others))
        for row, count in zip(rows, votes, strict=True)
    ]
    for at, row in enumerate(rows):
        # The line below a title goes with it.
        stays[at] &= not (_RULE.match(row) and at and not stays[at - 1] and rows[at - 1].strip())
    cuts = _rulers(rows, starts, own, stays) if path.endswith(".rst") else []
    if all(stays):
        return Consensus(cuts, evidence)
    style = _COMMENTS.get(PurePosixPath(path).suffix)
    if style is None:
        return None
    # Between the dashes on top of a page is YAML, whose comments are other ones.
    head = read_front_matter(text).body_line - 1 if path.endswith(PAGES) else 0
    at = 0
    is_fenced = False
    while at < len(rows):
        is_fenced ^= rows[at].lstrip().startswith(("```", "~~~"))
        if stays[at]:
            at += 1
            continue
        first = at
        # Blank lines between lines that go have nothing left to part.
        while at < len(rows) and (not stays[at] or (not rows[at].strip() and not all(stays[at:]))):
            at += 1
        indent = re.match(r"[ \t]*", rows[first])
        end = "\n" if rows[at - 1].endswith("\n") else ""
        comment = ("# {}" if first < head else style).format(f"YOURS: {why}")
        mark = f"{indent[0] if indent else ''}{comment}{end}"
        gap = "\n" if at < len(rows) and rows[at].strip() and not rows[at - 1].strip() else ""
        # In a block of code the comment would be another one.
        cuts.append(Cut(starts[first], starts[at], ("" if is_fenced else mark) + gap))
    found = Consensus(sorted(cuts), evidence)
    left = [row for row, is_kept in zip(rows, stays, strict=True) if is_kept and row.strip()]
    if not left or not _is_sound(path, found.apply(text)):
        return None
    return found


def _rulers(
    rows: Sequence[str],
    starts: Sequence[int],
    own: Sequence[Sequence[Piece]],
    stays: Sequence[bool],
) -> list[Cut]:
    """Return cuts that make the lines below and above a title with a name as long as any title."""

    def is_named(at: int) -> bool:
        return 0 <= at < len(rows) and any(piece.is_name for piece in own[at])

    found: list[Cut] = []
    for at, row in enumerate(rows):
        below = rows[at + 2][:1] if at + 2 < len(rows) and _RULE.match(rows[at + 2]) else ""
        is_ruler = is_named(at - 1) or (is_named(at + 1) and below == row[:1])
        if stays[at] and is_ruler and _RULE.match(row):
            found.append(Cut(starts[at], starts[at] + len(row.rstrip()), row[0] * TITLE))
    return found


def _line_form(text: str) -> str:
    """Return what lines of different units are compared by: years and lengths of rules are one."""
    return _LONG.sub(r"\1\1\1\1", without_years(text))


def _is_sound(path: str, text: str) -> bool:
    try:
        match PurePosixPath(path).suffix:
            case ".toml":
                tomllib.loads(text)
            case ".yml" | ".yaml":
                yaml.safe_load(text)
            case ".json":
                json.loads(text)
            case ".md" | ".markdown":
                return not read_front_matter(text).problem
            case _:
                pass
    except (ValueError, yaml.YAMLError):
        return False
    return True


# ---- the template --------------------------------------------------------------------------------


def _template(
    text: str, name: Name, family: Family, consensus: Consensus, path: str, lexicon: Lexicon
) -> str:
    is_prose = path.endswith(PROSE)
    names = family.names
    found = slots(text, name, names, consensus.evidence, is_prose=is_prose, lexicon=lexicon)
    parts: list[str] = []
    last = 0
    for cut in [*consensus.cuts, Cut(len(text), len(text))]:
        inside = [
            each._replace(start=each.start - last, end=each.end - last)
            for each in found
            if last <= each.start and each.end <= cut.start
        ]
        parts.append(as_template(text[last : cut.start], inside))
        if cut.is_own:
            # What it has of the unit's own text is spelled as there.
            spelled = {text[each.start : each.end]: each.variable for each in found}
            rows = slots(cut.instead, name, names, {}, is_prose=is_prose, lexicon=lexicon)
            rows = [
                row._replace(variable=spelled.get(cut.instead[row.start : row.end], row.variable))
                for row in rows
            ]
            parts.append(as_template(cut.instead, rows))
        else:
            parts.append(as_template(cut.instead, ()))
        last = cut.end
    return "".join(parts)


def used_variables(texts: Iterable[str], variable: str) -> bool:
    """Return whether a variable is in a template or a manifest's string."""
    return any(f"{{{variable}}}" in text or f"{{{{ {variable} }}}}" in text for text in texts)
