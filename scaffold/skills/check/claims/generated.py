"""Generated blocks: what stands between their comments follows from the repository."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from scaffold.analysis.files.files import Files
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.documents import Document

if TYPE_CHECKING:  # costs 10 ms, and few texts have such blocks
    from scaffold.skills.blocks.expected import Problem
    from scaffold.skills.blocks.expected import Repository as BlockRepository
    from scaffold.skills.blocks.markers import Block


def find_blocks(document: Document) -> Iterator[Claim]:
    """Yield the generated blocks of a document."""
    if "scaffold:begin" in document.text or "scaffold:end" in document.text:
        from scaffold.skills.blocks.markers import parse_blocks

        for block in parse_blocks(document.text):
            text = " ".join((block.kind, *block.words))
            yield Claim("generated", text, block.line, 1, block)


def judge_block(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a generated block: is it what its sources give today?"""
    from scaffold.skills.blocks.expected import REPAIR, Problem, expected

    block: Block = claim.data
    found = expected(block, _repository(repository.files))
    if found is None:
        return Verdict.holds("what it follows from is as it was when it was written")
    if isinstance(found, Problem):
        return _wrong(claim, found)
    if found.strip("\n") == block.content:
        return Verdict.holds("its sources give the same text")
    return Verdict.fails(
        "block-stale",
        f"the generated block {claim.text!r} has fallen behind",
        f"its sources differ from line {_first_difference(block, found)} on",
        now=f"`{REPAIR}` writes it anew",
    )


def _wrong(claim: Claim, problem: Problem) -> Verdict:
    from scaffold.skills.blocks.expected import REPAIR

    rule = "block-stale" if problem.is_stale else "block-invalid"
    now = f"`{REPAIR}` writes it anew" if problem.is_stale else ""
    return Verdict.fails(
        rule, f"the generated block {claim.text!r}: {problem.message}", "", now=now
    )


def _first_difference(block: Block, text: str) -> int:
    ours, theirs = block.content.split("\n"), text.strip("\n").split("\n")
    lead = len(block.body) - len(block.body.lstrip("\n"))
    pairs = zip(ours, theirs, strict=False)
    same = next(
        (index for index, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs))
    )
    return block.line + 1 + lead + same


@lru_cache(maxsize=4)
def _repository(files: Files) -> BlockRepository:
    from scaffold.skills.blocks.expected import Repository as BlockRepository
    from scaffold.skills.blocks.settings import read_settings

    return BlockRepository(files, read_settings(files))


GENERATED = Kind("generated", find_blocks, judge_block)
