"""Whether a generated block is what its sources give today."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scaffold.analysis.files.files import Files
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.resolve.scope import Scope

if TYPE_CHECKING:  # costs 10 ms, and few texts have such blocks
    from scaffold.skills.blocks.expected import Problem
    from scaffold.skills.blocks.expected import Repository as BlockRepository
    from scaffold.skills.blocks.markers import Block


def resolve_generated(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a generated block: is it what its sources give today?"""
    from scaffold.skills.blocks.expected import REPAIR, Problem, expected

    block: Block = reference.data
    found = expected(block, _repository(scope.files))
    if found is None:
        return Verdict.holds("what it follows from is as it was when it was written")
    if isinstance(found, Problem):
        return _wrong(reference, found)
    if found.strip("\n") == block.content:
        return Verdict.holds("its sources give the same text")
    message = f"the generated block {reference.text!r} is out of date"
    evidence = f"its sources differ from line {_first_difference(block, found)} on"
    return Verdict("contradicts", evidence, "block-stale", message, f"`{REPAIR}` rewrites it")


def _wrong(reference: Reference, problem: Problem) -> Verdict:
    from scaffold.skills.blocks.expected import REPAIR

    rule = "block-stale" if problem.is_stale else "block-invalid"
    now = f"`{REPAIR}` rewrites it" if problem.is_stale else ""
    message = f"the generated block {reference.text!r}: {problem.message}"
    return Verdict("contradicts", "", rule, message, now)


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
