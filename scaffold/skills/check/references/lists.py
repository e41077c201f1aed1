"""Lists, tables and drawings that enumerate a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block, Span, words_of
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.trees import find_trees

_FIRST = lazy_re(r"^\W{0,4}`(?P<name>\.?[\w-][\w./-]*)`")
_ROW = lazy_re(r"^\s*(?P<name>[\w.-]+(?:/[\w.-]+)*/?)\s*(?:(?:#|//|←|—)\s.*)?$")
_ELIDED = lazy_re(r"\.\.\.|…|\betc\b")
_SAID = lazy_re(r"\s(?:#|//|←|—)\s.*")
_CLASS = lazy_re(r"\b[A-Z][A-Za-z0-9_]*[a-z][A-Za-z0-9_]*[A-Z][A-Za-z0-9_]*\b")
_CLASS_CODE = lazy_re(r"`([A-Z]\w*[a-z]\w*)`")
_CAPITAL = lazy_re(r"\b[A-Z]\w*[a-z]\w*")
_CODE = lazy_re(r"`([^`]+)`")
_WORD = lazy_re(r"[A-Za-z_]\w*")
# "READY / RUNNING / DONE", "READY, RUNNING and DONE".
_VALUES = lazy_re(
    r"\b[A-Z][A-Z0-9_]+(?:(?:\s*[/,|]\s*|\s*,?\s+(?:and|or)\s+)[A-Z][A-Z0-9_]+){2,}\b"
)
# "`helpers.py` — what it is for (`one`, `two`, `three`)".
_DEFINED = lazy_re(
    r"^\**`(?P<file>[\w./-]+\.py)`\**[ \t]*[—–:-][^`.;|()]{0,80}"
    r"\((?P<names>`\w+`(?:,\s*(?:and\s+)?`\w+`){2,})\)"
)
LEAST = 4
"""A list of fewer is one of examples."""


class Listing(NamedTuple):
    """What a list enumerates.

    Args:
        names: The first name of each item.
        what: "folder" for its entries, "classes" for what derives from a class, "enum" for its
            members, "file" for what it defines, "members" for those of a class.
        of: The classes, or the file, that the text names with it.
        every: All classes of a drawing, its root first; of members the one that is looked at.
    """

    names: tuple[str, ...]
    what: str = "folder"
    of: tuple[str, ...] = ()
    every: tuple[str, ...] = ()


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
            yield from _members(blocks, tuple(names))
            first = next(each for each in blocks if _FIRST.match(each.text))
            span = Span(names[0], first.line, 1, first, "", "")
            text = f"{names[0]} to {names[-1]}"
            yield Reference("list", text, first.line, 1, Listing(tuple(names)), span=span)
            if of := tuple(_CLASS_CODE.findall(first.intros[-1] if first.intros else "")):
                derived = Listing(tuple(names), "classes", of)
                yield Reference("list", text, first.line, 2, derived, span=span)
    for fence in document.markdown.fences:
        rows = [each for each in fence.text.split("\n") if each.strip()]
        listed = [found["name"] for each in rows if (found := _ROW.match(each))]
        if len(listed) >= LEAST and len(listed) == len(rows):
            text = f"{listed[0]} to {listed[-1]}"
            yield Reference("list", text, fence.line, 1, Listing(tuple(listed)), fence)
        yield from _drawn_classes(fence)
    yield from _drawn(document)
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item", "cell"):
            yield from _in_line(block)


def _members(blocks: Sequence[Block], names: tuple[str, ...]) -> Iterator[Reference]:
    """Yield the names of a list, each as a member of a class that is named above the list."""
    above = " ".join([*blocks[0].headings[-1:], *blocks[0].intros[-1:]])
    of = tuple(dict.fromkeys(_CAPITAL.findall(above)))
    if of and blocks[0].kind == "item" and all(map(_WORD.fullmatch, names)):
        for block, name in zip(blocks, names, strict=True):
            span = Span(name, block.line, 1, block, "", block.text.partition("`")[2][:400])
            listing = Listing(names, "members", of, (name,))
            yield Reference("list", name, block.line, 4, listing, span=span)


def _drawn(document: Document) -> Iterator[Reference]:
    """Yield the folders of a folder that a drawing shows, where it leaves nothing out."""
    rows: dict[tuple[int, str], list[Reference]] = {}
    for each in find_trees(document):
        if each.kind == "tree" and each.block is not None and not _is_elided(each.block):
            parent = f"{each.data.root}/{each.data.path}".rpartition("/")[0]
            rows.setdefault((id(each.block), parent), []).append(each)
    for (_, parent), entries in rows.items():
        data = entries[0].data
        every = (f"{data.root}/{each}" for each in data.drawn)
        names = tuple(each for each in every if each.rpartition("/")[0] == parent)
        folders = [each for each in names if "." not in each.rpartition("/")[2]]
        if len(folders) >= LEAST:
            first = entries[0]
            listing = Listing(tuple(each.strip("/") for each in folders))
            yield Reference("list", f"{parent}/", first.line, 1, listing, first.block)


def _drawn_classes(fence: Block) -> Iterator[Reference]:
    """Yield the branches of a drawn hierarchy of classes, each by the class that it begins with.

    A row of plain words only sorts what is below it, unless it names a class: "MoE (via `Base`)".
    """
    stack: list[tuple[int, str]] = []
    branches: dict[str, tuple[int, list[str]]] = {}
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        name = max(_CLASS.findall(row.partition("#")[0]), key=len, default="")
        depth = len(row) - len(row.lstrip(" │|├└─`+-"))
        stack = [each for each in stack if each[0] < depth]
        if name and stack:
            parent = stack[-1][1]
            branches.setdefault(parent, (0, []))[1].append(name)
        if name:
            stack.append((depth, name))
            branches[name] = (number, branches.get(name, (0, []))[1])
    root = next(iter(branches), "")
    for name, (number, below) in branches.items():
        if below and name != root and len(branches) > LEAST:
            listing = Listing(tuple(below), "classes", (name,), (root, *branches))
            yield Reference("list", name, number, 1, listing, fence)


def _in_line(block: Block) -> Iterator[Reference]:
    """Yield what a sentence enumerates: members of an enum, or what a file defines."""
    of = tuple(dict.fromkeys(_CLASS.findall(" ".join(_CODE.findall(block.text)))))
    plain = block.text.replace("`", "")
    for found in _VALUES.finditer(plain) if of else ():
        names = tuple(_WORD.findall(found.group()))
        yield _enumerated(block._replace(text=plain), found, Listing(names, "enum", of))
    for found in _DEFINED.finditer(block.text):
        names = tuple(_WORD.findall(found["names"]))
        yield _enumerated(block, found, Listing(names, "file", (found["file"],)))


def _enumerated(block: Block, found: re.Match[str], listing: Listing) -> Reference:
    shown = f"{listing.names[0]} to {listing.names[-1]}"
    span = words_of(block, found.start(), found.end(), shown)
    return Reference.at(span._replace(column=3 + found.start()), "list", listing)


def _is_elided(drawing: Block) -> bool:
    """Return whether a drawing leaves entries out; what is said of one of them may leave more."""
    return any(_ELIDED.search(_SAID.sub("", row)) for row in drawing.text.split("\n"))


def _is_title(block: Block) -> bool:
    return block.kind == "cell" and block.text == block.info
