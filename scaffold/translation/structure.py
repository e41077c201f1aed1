"""Do the headings and blocks of a translation agree with its page?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from scaffold.findings import Finding
from scaffold.translation.code_text import lines_agree, without_words
from scaffold.translation.comparison import Comparison
from scaffold.translation.finding import disagreement
from scaffold.translation.page import Block, Page
from scaffold.translation.pairing import Pair


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
            yield from _extra_markers(other, pair)


def _extra_markers(other: Page, pair: Pair) -> Iterator[Finding]:
    assert pair.translation is not None, "it was asked for"
    for marker in pair.translation.markers[1:]:
        yield disagreement(other.path, marker.line, "marker", str(marker), "one marker a section")


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
    for number in range(max(len(ours), len(theirs))):
        wanted = ours[number] if number < len(ours) else None
        found = theirs[number] if number < len(theirs) else None
        if None in (wanted, found) or not lines_agree(wanted or "", found or "", source.info):
            line = block.line + first + number
            place = source.line + first + number
            yield at.finding("code", line, _quoted(found), _quoted(wanted), place)
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
