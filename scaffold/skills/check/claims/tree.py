"""Drawn trees of files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.places import bases
from scaffold.skills.check.context import is_placeholder, lead_silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.doubt import is_doubtful_intro
from scaffold.skills.check.markdown import Block

_ENTRY = lazy_re(r"^(?P<lead>[\s│|]*)(?:[├└|`+][─-]{1,3}\s?)(?P<name>\S+)(?P<rest>.*)$")
_ROOT = lazy_re(r"^(?P<name>[\w./@-]+/?)\s*(?:#.*|←.*)?$")
_NEW = lazy_re(r"\b(?:new|creat|generat|optional|your|output|todo|written)", re.IGNORECASE)
# A drawing of which less exists is of another place, or of one that is yet to be.
_MOST = 0.6


def find_trees(document: Document) -> Iterator[Claim]:
    """Yield the entries of drawn trees, in documents about their own repository."""
    if not document.is_about_here:
        return
    for fence in document.markdown.fences:
        entries = list(_entries(fence))
        if entries and lead_silence(fence) is None and not is_doubtful_intro(fence.lead):
            yield from entries


def _entries(fence: Block) -> Iterator[Claim]:
    lines = fence.text.split("\n")
    if sum(_ENTRY.match(line) is not None for line in lines) < 2:
        return
    root, stack = "", list[tuple[int, str]]()
    found: list[tuple[int, str, str]] = []
    for number, line in enumerate(lines, fence.line):
        entry = _ENTRY.match(line)
        if entry is None:
            start = _ROOT.match(line)
            if start and not found:
                root = start["name"].strip("/")
            continue
        depth = len(entry["lead"])
        stack = [each for each in stack if each[0] < depth]
        name = entry["name"].rstrip("/,")
        path = "/".join([*(each for _, each in stack), name])
        stack.append((depth, name))
        if not is_placeholder(path) and not _NEW.search(entry["rest"]) and name not in (".", ".."):
            found.append((number, path, entry["name"]))
    every = tuple(path for _, path, _ in found)
    for number, path, name in found:
        column = lines[number - fence.line].find(name) + 1
        yield Claim("tree", path, number, column, (root, every))


def judge_tree(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge an entry of a tree: does it exist where most of the drawing does?"""
    root, every = claim.data
    base = _base(root, every, document, repository)
    if base is None:
        return Verdict.open("most of the drawing does not exist: it may show another place")
    whole = f"{base}/{claim.text}" if base else claim.text
    if repository.files.has(whole):
        return Verdict.holds(f"git lists {whole}")
    parent = whole.rpartition("/")[0]
    if parent and not repository.files.has(parent):
        return Verdict.open(f"{parent} is missing, which is reported already")
    if repository.files.is_ignored(whole):
        return Verdict.open("git ignores it: it is made, not kept")
    return Verdict.fails(
        "tree-missing",
        f"the tree shows {claim.text!r}",
        f"there is no {whole}",
        confidence="medium",
    )


def _base(
    root: str, every: tuple[str, ...], document: Document, repository: Repository
) -> str | None:
    """Return the folder in which most of a drawing exists, or None."""
    starts = list(bases(document, repository))
    if root not in ("", "."):
        starts = [f"{base}/{root}".strip("/") for base in starts] + starts
    for start in starts:
        there = sum(repository.files.has(f"{start}/{path}" if start else path) for path in every)
        if there >= 2 and there >= _MOST * len(every):
            return start
    return None


TREES = Kind("tree", find_trees, judge_tree)
