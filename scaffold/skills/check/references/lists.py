"""Lists, tables and drawings that enumerate a folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block, Span
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.trees import find_trees

_FIRST = lazy_re(r"^\W{0,4}`(?P<name>\.?[\w-][\w./-]*)`")
_ROW = lazy_re(r"^\s*(?P<name>[\w.-]+(?:/[\w.-]+)*/?)\s*(?:(?:#|//|←|—)\s.*)?$")
_ELIDED = lazy_re(r"\.\.\.|…|\betc\b")
LEAST = 4
"""A list of fewer is one of examples."""


class Listing(NamedTuple):
    """What a list enumerates: the first name of each item."""

    names: tuple[str, ...]


def find_lists(document: Document) -> Iterator[Reference]:
    """Yield the lists of which each item begins with a name, and the first columns of tables."""
    groups: dict[tuple[object, ...], list[Block]] = {}
    for block in document.markdown.blocks:
        is_first = block.kind == "cell" and block.row[:1] == (block.text,)
        if block.kind == "item" or is_first:
            key = (block.kind, block.headings, block.intros, block.lead if is_first else "")
            groups.setdefault(key, []).append(block)
    for blocks in groups.values():
        found = [_FIRST.match(each.text) for each in blocks if not _is_title(each)]
        names = [each["name"] for each in found if each is not None]
        if len(names) >= LEAST and len(names) == len(found):
            first = next(each for each in blocks if _FIRST.match(each.text))
            span = Span(names[0], first.line, 1, first, "", "")
            text = f"{names[0]} to {names[-1]}"
            yield Reference("list", text, first.line, 1, Listing(tuple(names)), span=span)
    for fence in document.markdown.fences:
        rows = [each for each in fence.text.split("\n") if each.strip()]
        listed = [found["name"] for each in rows if (found := _ROW.match(each))]
        if len(listed) >= LEAST and len(listed) == len(rows):
            text = f"{listed[0]} to {listed[-1]}"
            yield Reference("list", text, fence.line, 1, Listing(tuple(listed)), fence)
    yield from _drawn(document)


def _drawn(document: Document) -> Iterator[Reference]:
    """Yield the folders of a folder that a drawing shows, where it leaves nothing out."""
    rows: dict[tuple[int, str], list[Reference]] = {}
    for each in find_trees(document):
        if each.kind == "tree" and each.block is not None and not _ELIDED.search(each.block.text):
            parent = f"{each.data.root}/{each.data.path}".rpartition("/")[0]
            rows.setdefault((id(each.block), parent), []).append(each)
    for (_, parent), entries in rows.items():
        names = tuple(f"{parent}/{each.text.rpartition('/')[2]}" for each in entries)
        folders = [each for each in names if "." not in each.rpartition("/")[2]]
        if len(folders) >= LEAST:
            first = entries[0]
            listing = Listing(tuple(each.strip("/") for each in folders))
            yield Reference("list", f"{parent}/", first.line, 1, listing, first.block)


def _is_title(block: Block) -> bool:
    return block.kind == "cell" and block.text == block.info
