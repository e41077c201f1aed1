"""Counts of what stands directly below: "There are three steps:" and a list or table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.numbers import NUMBER, value_of
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block

_NOUN = r"(?P<noun>(?:(?!or\b|to\b|of\b)[a-z][\w-]*\s+){0,2}[a-z][\w-]*s)"
_PLAIN = (
    r"(?:\s+(?:(?:are|is)\s+)?(?:supported|available|required|possible|allowed|needed|provided"
    r"|defined|used|in (?:this )?order|below|here|apply|matter|exist))?"
)
_MORE = r"(?:\s+(?:to|for|of|in|when|that|which|you)\s[^,;:.\d]*)?"
_HAS = (
    r"has|have|supports?|offers?|provides?|includes?|contains?|consists? of|comes? in|comprises?"
    r"|defines?|exposes?|(?:is|are) (?:split|divided|organi[sz]ed) into"
)
_DO = r"follow|use|complete|perform|answer|run|take|apply|check|read|choose between|pick one of"
_END = r"\s*:\s*\**\s*$"
_SENTENCES = tuple(
    lazy_re(each, re.IGNORECASE)
    for each in (
        rf"^there (?:are|exist)\s+(?:exactly\s+)?{NUMBER}\s+{_NOUN}(?:{_PLAIN}|{_MORE}){_END}",
        rf"^[^,;:.\d]{{1,60}}?\b(?:{_HAS})\s+(?:the following\s+)?{NUMBER}\s+{_NOUN}"
        rf"(?:{_PLAIN}|{_MORE}){_END}",
        rf"^(?:{_DO})\s+(?:the following|these)\s+{NUMBER}\s+{_NOUN}(?:{_PLAIN}|{_MORE}){_END}",
        rf"^the following\s+{NUMBER}\s+{_NOUN}(?:{_PLAIN}|{_MORE}){_END}",
        rf"^(?:the\s+)?{NUMBER}\s+{_NOUN}{_PLAIN}{_END}",
    )
)
_UNITS = lazy_re(
    r"\b(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|times|characters|chars|lines|words"
    r"|bytes|tokens|spaces|levels|percent|dimensions|columns|cases|ways|s|ms|gb|mb|kb)$",
    re.IGNORECASE,
)
_ITEM = lazy_re(r"^(?P<lead>\s*)(?P<mark>[-*+]|(?P<ordinal>\d{1,3})[.)])\s+\S")
_OPEN_END = lazy_re(r"^\s*(?:[-*+]|\d+[.)])?\s*(?:…|\.\.\.|etc\b|and (?:so on|more)\b)")
# A list is not looked for farther down, where a text has no headings.
_FARTHEST = 300


class Below(NamedTuple):
    """A number with the numbers that counting what stands below it can give."""

    number: int
    counted: tuple[int, ...]
    what: str


def find_listed(document: Document) -> Iterator[Claim]:
    """Yield the numbers in sentences that introduce a list or a table directly below."""
    blocks = document.markdown.blocks
    for index, block in enumerate(blocks[:-1]):
        following = blocks[index + 1].kind
        if block.kind != "paragraph" or following not in ("item", "cell"):
            continue
        found = _announced(block)
        if found is None:
            continue
        is_list = following == "item"
        below = _list(block, document.lines) if is_list else _table(blocks[index + 1 :])
        if below:
            what, counted = below
            data = Below(value_of(found["number"]), counted, what)
            line = block.line + block.text.count("\n")
            yield Claim("listed", f"{found['number']} {found['noun']}", line, 1, data)


def _announced(block: Block) -> re.Match[str] | None:
    last = re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", block.text).strip())[-1]
    last = last.replace("**", "").replace("__", "")
    if last.startswith(("#", "|")) or not last.rstrip(" *").endswith(":"):
        return None
    for sentence in _SENTENCES:
        found = sentence.search(last)
        if found and not _UNITS.search(found["noun"]):
            return found
    return None


def _list(block: Block, lines: Sequence[str]) -> tuple[str, tuple[int, ...]] | None:
    """Return how many items the list below a paragraph can be said to have."""
    rows = list(_rows_below(block.line + block.text.count("\n"), lines))
    items = [found for row in rows if (found := _ITEM.match(row))]
    if len(items) < 2 or any(_OPEN_END.match(row) for row in rows):
        return None
    depth = min(len(each["lead"]) for each in items)
    top = [each for each in items if len(each["lead"]) == depth]
    ordinals = [int(each["ordinal"]) for each in top if each["ordinal"]]
    counted = [len(top), len(items), *([max(ordinals)] if ordinals else [])]
    # A list that text or code interrupts goes on behind it.
    unbroken = 0
    for row in rows:
        found = _ITEM.match(row)
        if found and len(found["lead"]) == depth:
            unbroken += 1
        elif row.strip() and not row.startswith((" ", "\t")) and not found:
            break
    return "the list below", tuple(dict.fromkeys([unbroken, *counted]))


def _rows_below(line: int, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines below a line, up to the next heading, without fenced code."""
    fence = ""
    for row in lines[line : line + _FARTHEST]:
        mark = re.match(r"\s*(`{3,}|~{3,})", row)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            if row.startswith("#"):
                return
            yield row


def _table(blocks: Sequence[Block]) -> tuple[str, tuple[int, ...]] | None:
    cells: list[Block] = []
    for block in blocks:
        if block.kind != "cell":
            break
        cells.append(block)
    rows = sorted({block.line for block in cells})
    body = len(rows) - 1  # the first is the head
    columns = sum(block.line == rows[0] for block in cells)
    if body < 1:
        return None
    return "the table below", (body, columns, columns - 1)


def judge_listed(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a number in front of a list: does any way of counting the list give it?"""
    below: Below = claim.data
    if below.number in below.counted:
        return Verdict.holds(f"{below.what} has {below.number}")
    return Verdict.fails(
        "count-differs",
        f"{claim.text!r} are announced",
        f"{below.what} has {below.counted[0]}",
        now=f"there are {below.counted[0]}",
        confidence="medium",
    )


LISTED = Kind("listed", find_listed, judge_listed)
