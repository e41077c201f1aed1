"""Drawn trees of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.placeholders import is_placeholder

_ENTRY = lazy_re(r"^(?P<lead>[\s│|]*)(?:[├└|`+][─-]{1,3}\s?)(?P<name>\S+)(?P<rest>.*)$")
# `  client/  — public objects`: an outline has its depth from blanks alone.
_ROW = lazy_re(
    r"^(?P<lead>[ \t]+)(?P<name>[\w.@-]+(?:/[\w.@-]+)*/?)"
    r"(?P<rest>\s*(?:\s(?:#|//|←|→|[—–-])\s.*)?)$"
)
_ROOT = lazy_re(r"^(?P<name>[\w./@-]+/?)\s*(?:#.*|←.*)?$")
_LINKED = lazy_re(
    r"\bsym(?:bolic )?link(?:ed|s)? ?(?:to|→|->) ?`?(?P<to>[\w./-]+\w)", re.IGNORECASE
)
_NEW = lazy_re(r"\b(?:new|created?|generated|optional|your|outputs?|todo|written)\b", re.IGNORECASE)


class Entry(NamedTuple):
    """An entry of a drawing.

    Args:
        path: From the root of the drawing.
        root: What the drawing begins with, or empty.
        every: All entries of the drawing that are said to be there.
        drawn: Those that are made, optional or for others as well.
        is_made: Whether it is one of those that are made or optional.
    """

    path: str
    root: str
    every: tuple[str, ...]
    drawn: tuple[str, ...]
    is_made: bool = False


def find_trees(document: Document) -> Iterator[Reference]:
    """Yield the entries of drawn trees."""
    for fence in document.markdown.fences:
        yield from _entries(fence)


def _entries(fence: Block) -> Iterator[Reference]:
    lines = fence.text.split("\n")
    form = _ROW if _is_outline(lines) else _ENTRY
    if sum(form.match(line) is not None for line in lines) < 2:
        return
    root, stack, drawn = "", list[tuple[int, str]](), list[str]()
    found: list[tuple[int, str, str, bool]] = []
    for number, line in enumerate(lines, fence.line):
        entry = form.match(line)
        if entry is None:
            start = _ROOT.match(line)
            if start:  # of several drawings in a block each has its own root
                yield from _told(found, root, drawn, fence)
                root, stack, found, drawn = start["name"].strip("/"), [], [], []
            continue
        depth = len(entry["lead"])
        stack = [each for each in stack if each[0] < depth]
        name = entry["name"].rstrip("/,#:")
        path = "/".join([*(each for _, each in stack), name])
        if name[:1] in "├└│|":
            continue
        stack.append((depth, name))
        drawn.append(path)
        is_open = is_placeholder(path) or name[:1] in "[<" or name in (".", "..")
        if not is_open and "," not in entry["rest"].partition("#")[0]:
            is_made = _NEW.search(entry["rest"]) is not None
            found.append((number, path, entry["name"], is_made))
        if linked := _LINKED.search(entry["rest"]):
            data = (f"{root}/{path}" if root else path, linked["to"])
            yield Reference("symlink", path, number, line.find(name) + 1, data, fence)
    yield from _told(found, root, drawn, fence)


def _is_outline(lines: list[str]) -> bool:
    """Return whether every row is a path, and what is below another is below a folder."""
    folders: list[int] = []
    for line in filter(None, map(str.rstrip, lines)):
        found = _ROW.match(f" {line}")
        if found is None:
            return False
        depth = len(found["lead"])
        folders = [each for each in folders if each < depth]
        if depth > 1 and not folders:
            return False
        folders += [depth] if found["name"].endswith("/") else []
    return True


def _told(
    found: list[tuple[int, str, str, bool]], root: str, drawn: list[str], fence: Block
) -> Iterator[Reference]:
    lines = fence.text.split("\n")
    every = tuple(path for _, path, _, is_made in found if not is_made)
    for number, path, name, is_made in found:
        column = lines[number - fence.line].find(name) + 1
        entry = Entry(path, root, every, tuple(drawn), is_made)
        yield Reference("tree", path, number, column, entry, fence)
