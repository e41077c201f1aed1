"""What translations get that were there before the tool: markers, and a glossary to begin with."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scaffold.transaction.change import Change
from scaffold.translation.documents import Documents
from scaffold.translation.glossary import Glossary, Term
from scaffold.translation.page import Marker, Page, Section
from scaffold.translation.pairing import Pair

_TABLE = Path(__file__).with_name("starter_glossary.toml")
_SHARE = 0.8
"""In so many of the sections that use a term its translation has the word, or the term is left."""


class Adoption(NamedTuple):
    """What taking translations over writes.

    Args:
        left: Sections, as file:line, of which history does not show what they translate.
        reworded: Sections, as file:line, that are taken to be in step with a page of other words.
    """

    changes: tuple[Change, ...]
    marked: int
    left: tuple[str, ...]
    reworded: tuple[str, ...]


def plan_adoption(documents: Documents, pages: Iterable[str]) -> Adoption:
    """Return the markers that sections without one get; nothing else of a file changes.

    A marker has the hash of the source that was translated, so a section that is behind is stale
    afterwards too; one whose source was reworded gets the hash of today.
    """
    changes: list[Change] = []
    marked, left, reworded = 0, list[str](), list[str]()
    for page in pages:
        other = documents.layout.pages[page]
        if not documents.has(other):
            continue
        pairs = documents.pairs(page)
        wanted = dict(_markers(documents.page(other), pairs))
        for pair in pairs:
            place = f"{other}:{pair.translation.line}" if pair.translation else ""
            left += [place] if place and pair.state == "unmarked" else []
            reworded += [place] if place and pair.state == "reworded" else []
        if wanted:
            before = documents.files.data(other) or b""
            changes.append(Change(other, "edited", before, _marked(before, wanted)))
            marked += len(wanted)
    return Adoption(tuple(changes), marked, tuple(left), tuple(reworded))


def _markers(other: Page, pairs: Iterable[Pair]) -> Iterator[tuple[int, str]]:
    """Yield the line below which each marker goes, and the marker."""
    for pair in pairs:
        if pair.origin is not None and pair.source and pair.translation:
            in_step = pair.source if pair.state == "reworded" else pair.origin
            marker = Marker(pair.source.key, in_step.hash, 0)
            yield _last_line(other, pair.translation), str(marker)


def _last_line(page: Page, section: Section) -> int:
    """Return the last line of a heading, or of the front matter above the first one; 0 for none."""
    if not section.level:
        return max(page.front.body_line - 1, 0)
    if page.lines[section.line - 1].lstrip().startswith("#"):
        return section.line
    # Of a heading that is underlined.
    rows = enumerate(page.lines[section.line :], section.line + 1)
    return next(at for at, row in rows if row.strip() and not row.strip().strip("=-"))


def _marked(data: bytes, markers: dict[int, str]) -> bytes:
    """Return a page with markers below some of its lines, each between blank ones."""
    end = b"\r\n" if b"\r\n" in data else b"\n"
    found = [markers[0].encode() + end + end] if 0 in markers else []
    rows = data.splitlines(keepends=True)
    for at, row in enumerate(rows, 1):
        found.append(row)
        if at in markers:
            found.append(b"" if row.endswith((b"\n", b"\r")) else end)
            found.append(end + markers[at].encode() + end)
            if at < len(rows) and rows[at].strip():
                found.append(end)
    return b"".join(found)


def starter_glossary(documents: Documents) -> Change | None:
    """Return the glossary that a repository's own use bears out; None where it has one.

    A term counts where pages use it and most of their translations have the word; one that no
    translated page uses yet counts for nothing.
    """
    path = documents.layout.glossary
    if documents.has(path):
        return None
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    told = table.get(documents.settings.language, {})
    terms = [Term(name, tuple(words)) for name, words in told.items()]
    terms += [Term(name) for name in table["keep"]]
    texts = [
        (pair.source.prose, pair.translation.prose)
        for page, other in documents.layout.pages.items()
        if documents.has(page) and documents.has(other)
        for pair in documents.pairs(page)
        if pair.source and pair.translation
    ]
    # Longer terms first, as in every glossary: "loss function" leaves no "loss".
    used = [(term, other) for source, other in texts for term in Glossary(terms).used_in(source)]
    borne = [term for term in terms if _is_borne_out(term, used)]
    return Change(path, "created", None, _text(borne).encode())


def _is_borne_out(term: Term, used: list[tuple[Term, str]]) -> bool:
    found = [
        each.is_in(other) if each.is_kept else each.is_translated_in(other)
        for each, other in used
        if each == term
    ]
    return bool(found) and sum(found) >= _SHARE * len(found)


def _text(terms: list[Term]) -> str:
    kept = json.dumps([each.name for each in terms if each.is_kept], ensure_ascii=False)
    rows = [f"keep = {kept}", "", "[terms]"]
    rows += [
        f"{json.dumps(each.name)} = {json.dumps(each.translations, ensure_ascii=False)}"
        for each in terms
        if not each.is_kept
    ]
    return "\n".join(rows) + "\n"
