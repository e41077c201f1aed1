"""The comparison of a translation with its page as it is now: headings, blocks, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from scaffold.findings import Finding
from scaffold.translation.code_text import lines_agree, without_words
from scaffold.translation.documents import Documents
from scaffold.translation.finding import Comparison, disagreement
from scaffold.translation.links import Links
from scaffold.translation.page import Block, Page
from scaffold.translation.pairing import Pair
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
    ours, theirs = page.front.fields, other.front.fields
    # Keys alone are compared: their values are text, which is translated. Where the page has none,
    # those of the translation are settings of its site.
    rows = [("none", f"the key {key}") for key in ours if key not in theirs]
    rows += [(f"the key {key}", "none") for key in theirs if ours and key not in ours]
    # Broken YAML has no keys, and each of them would be reported as missing.
    if other.front.fault == "yaml":
        rows = [(str(other.front.problem), "front matter")]
    for found, wanted in rows:
        yield disagreement(other.path, 1, "front-matter", found, wanted, f"{page.path}:1")


def _check_anchors(page: Page, other: Page) -> Iterator[Finding]:
    """Yield anchors that a page sets itself, and its translation does not."""
    there = {anchor.text for section in other.sections for anchor in section.anchors}
    for section in page.sections:
        for anchor in section.anchors:
            if anchor.text not in there:
                place = f"{page.path}:{anchor.line}"
                wanted = f"the anchor {anchor.text!r}"
                yield disagreement(other.path, 1, "anchor", "none", wanted, place)


def check_headings(page: Page, other: Page, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Yield sections that are missing, too many, out of order, or of another level."""
    last = 0
    for pair in pairs:
        source, section = pair.source, pair.translation
        if source is None:
            assert section is not None, "one of the two is there"
            found = f"the section {section.title!r}"
            yield disagreement(
                other.path, section.line, "heading", found, "none: the page has no such"
            )
        elif section is None:
            if pair.state != "excluded":
                wanted = f"a section for {source.title!r}, marked {source.wanted}"
                place = f"{page.path}:{source.line}"
                # What is missing has no line; the section that it follows has one.
                yield disagreement(other.path, last or 1, "heading", "none", wanted, place)
        else:
            place = f"{page.path}:{source.line}"
            if section.level != source.level:
                found, wanted = f"level {section.level}", f"level {source.level}"
                yield disagreement(other.path, section.line, "heading", found, wanted, place)
            # Pairs come in the order of the page, so lines that fall are out of order.
            if section.line < last:
                found = f"{section.title!r} above a section that it follows in the page"
                wanted = "the order of the page"
                yield disagreement(other.path, section.line, "order", found, wanted, place)
            last = max(last, section.line)
            for each in section.markers[1:]:
                yield disagreement(
                    other.path, each.line, "marker", str(each), "one marker a section"
                )


def check_blocks(at: Comparison) -> Iterator[Finding]:
    """Yield blocks that are missing, too many, or of another size."""
    ours, theirs = at.source.blocks, at.translation.blocks
    kinds = [block.kind for block in ours], [block.kind for block in theirs]
    matcher = SequenceMatcher(None, *kinds, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for source, block in zip(ours[i1:i2], theirs[j1:j2], strict=True):
                yield from _check_block(at, source, block)
            continue
        line = theirs[j1].line if j1 < len(theirs) else at.translation.line
        for block in ours[i1:i2]:
            yield at.finding(_rule(block), line, "none", _named(block), block.line)
        place = ours[i1].line if i1 < len(ours) else at.source.line
        for block in theirs[j1:j2]:
            yield at.finding(_rule(block), block.line, _named(block), "none", place)


def is_same_shape(at: Comparison) -> bool:
    """Return whether the blocks of two sections have the same order and the same sizes."""
    shapes = [[(b.kind, b.size) for b in part.blocks] for part in (at.source, at.translation)]
    return shapes[0] == shapes[1]


def _check_block(at: Comparison, source: Block, block: Block) -> Iterator[Finding]:
    if source.size != block.size or source.info != block.info:
        yield at.finding(_rule(block), block.line, _named(block), _named(source), source.line)
    elif source.text != block.text:
        yield from _check_code(at, source, block)


def _check_code(at: Comparison, source: Block, block: Block) -> Iterator[Finding]:
    ours = without_words(source.text, source.info).rstrip().split("\n")
    theirs = without_words(block.text, source.info).rstrip().split("\n")
    # Fenced code begins below its fence, indented code on its own first line.
    first = 1 if block.kind == "code block" else 0
    for number, (wanted, found) in enumerate(zip_longest(ours, theirs), first):
        if wanted is None or found is None or not lines_agree(wanted, found, source.info):
            said = _quoted(found), _quoted(wanted)
            yield at.finding("code", block.line + number, *said, source.line + number)
            return


def _quoted(row: str | None) -> str:
    return "the end of the block" if row is None else f"`{row}`"


def _rule(block: Block) -> str:
    # "bullet list" and "numbered list" both come under the rule "list".
    return {"code block": "code", "indented code": "code"}.get(block.kind, block.kind.split()[-1])


def _named(block: Block) -> str:
    """Return a block in words, with its size."""
    if block.kind == "table":
        return f"a table of {block.size[0]} rows and {block.size[1]} columns"
    if block.kind.endswith("list"):
        items = "item" if block.size == (1,) else "items"
        return f"a {block.kind} of {block.size[0]} {items}"
    article = "an" if block.kind[0] in "aeiou" else "a"
    return f"{article} {block.kind}{f' ({block.info})' if block.info else ''}"
