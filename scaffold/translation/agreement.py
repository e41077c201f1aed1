"""The comparison of a translation with its page as it is now."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.findings import Finding
from scaffold.translation.comparison import Comparison
from scaffold.translation.documents import Documents
from scaffold.translation.finding import disagreement
from scaffold.translation.links import Links
from scaffold.translation.page import Page
from scaffold.translation.structure import check_blocks, check_headings, is_same_shape
from scaffold.translation.wording import (
    check_comments,
    check_links,
    check_passage,
    check_terms,
)

MIN_ENGLISH = 4
"""A page with so few English texts, or fewer, is reported text by text."""


def check_page(documents: Documents, path: str) -> list[Finding]:
    """Return where the translation of a page disagrees with it, in the order of its lines."""
    page, other = documents.page(path), documents.page(documents.layout.pages[path])
    pairs = documents.pairs(path)
    found = [*_check_front(page, other), *check_headings(page, other, pairs)]
    for pair in pairs:
        if pair.source and pair.translation and pair.state != "excluded":
            at = Comparison(page.path, other.path, pair.source, pair.translation)
            found += _check_section(documents, at)
    found += _check_anchors(page, other)
    passages = sum(
        passage.slot != ("heading",) for section in other.sections for passage in section.passages
    )
    english = [finding for finding in found if finding.rule == "untranslated"]
    if len(english) > max(MIN_ENGLISH, passages / 2):
        # Nobody has begun; what else differs is found once somebody has.
        told = f"{len(english)} of {passages} texts in English"
        return [disagreement(other.path, 1, "untranslated", told, "a translation")]
    return sorted(found, key=lambda finding: finding.line)


def _check_section(documents: Documents, at: Comparison) -> Iterator[Finding]:
    # Blocks, comments and terms are compared once for the section, all else passage by passage.
    yield from check_blocks(at)
    yield from check_comments(at)
    yield from check_terms(at, documents.glossary)
    links = Links(documents, at.page)
    for source, passage in at.passages(is_same_shape=is_same_shape(at)):
        yield from check_passage(at, source, passage, documents.settings.language)
        yield from check_links(at, links, source, passage)


def _check_front(page: Page, other: Page) -> Iterator[Finding]:
    # Broken YAML has no keys, and each of them would be reported as missing.
    if other.front.fault == "yaml":
        found, wanted = str(other.front.problem), "front matter"
        yield disagreement(other.path, 1, "front-matter", found, wanted, f"{page.path}:1")
        return
    for key in page.front.fields:
        if key not in other.front.fields:
            yield disagreement(
                other.path, 1, "front-matter", "none", f"the key {key}", f"{page.path}:1"
            )
    # Keys alone are compared: their values are text, which is translated. Where the page has none,
    # those of the translation are settings of its site.
    for key in other.front.fields if page.front.fields else ():
        if key not in page.front.fields:
            yield disagreement(
                other.path, 1, "front-matter", f"the key {key}", "none", f"{page.path}:1"
            )


def _check_anchors(page: Page, other: Page) -> Iterator[Finding]:
    """Yield anchors that a page sets itself, and its translation does not."""
    there = {anchor.text for section in other.sections for anchor in section.anchors}
    for section in page.sections:
        for anchor in section.anchors:
            if anchor.text not in there:
                place = f"{page.path}:{anchor.line}"
                wanted = f"the anchor {anchor.text!r}"
                yield disagreement(other.path, 1, "anchor", "none", wanted, place)
