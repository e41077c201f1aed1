"""Markers written into translations that were there before the tool, from git's history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scaffold.transaction.change import Change
from scaffold.translation.documents import Documents
from scaffold.translation.page import Marker, Page, Section
from scaffold.translation.pairing import Pair


class Adoption(NamedTuple):
    """What taking translations over writes.

    Args:
        changes: The translations with their markers.
        marked: How many sections get one.
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
