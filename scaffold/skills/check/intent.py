"""What a text does with what it names: the one place where words count.

Some thirty words in four groups, the same for every kind of reference. They never make a finding;
they only take one back. What strong evidence refutes (it was removed, it moved) is taken back by
the words of its own clause alone; what is only not there is taken back by its sentence and by the
heading and the introduction above it, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Intent, Reference

# Of a command they are what it does: "show it without applying", "no cache".
_LACKS = r"no|none|nothing|without|missing"
_DENIES = (
    r"not|never|(?<!to )avoid\w*|remov\w+|delet\w+|drop(?:s|ped|ping)?(?!-)"
    r"|deprecat\w+|renam\w+|replac\w+|instead|rather|former\w*|legacy|obsolete|old|was|were|gone"
    r"|lost|wrong|bad"
    r"|don'?t|doesn'?t|isn'?t|(?:has|have) been"
)
_MAKES = (
    r"(?:creat|generat|writ|sav|produc|plac|introduc|scaffold|implement|add)(?:e?[sd]?|ing|ten)|new"
    r"|outputs?"
)
_ELSEWHERE = r"your|their|upstream|external|another|elsewhere|users?'s?"
_TEMPLATE = r"e\.g|examples?|such as|like|suppose|hypothetical\w*|placeholder|similar|imagine"
# What leaves open whether a thing is there, and is no evidence of one that was.
_OPEN = lazy_re(
    r"\b(?:if|when|would|might|may|could|optional\w*|planned|future|template)\b",
    re.IGNORECASE,
)
_GROUPS: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    ("denies", lazy_re(rf"\b(?:{_DENIES}|{_LACKS})\b|n't\b|[❌✗✘🚫]", re.IGNORECASE)),
    ("makes", lazy_re(rf"\b(?:{_MAKES})\b", re.IGNORECASE)),
    ("elsewhere", lazy_re(rf"\b(?:{_ELSEWHERE})\b", re.IGNORECASE)),
    ("template", lazy_re(rf"(?:\b(?:{_TEMPLATE})\b)", re.IGNORECASE)),
)
_AGAINST = lazy_re(rf"\b(?:{_DENIES})\b|n't\b|[❌✗✘🚫]", re.IGNORECASE)
# What sends the reader to a thing, whatever the page around it is about.
_SENT = lazy_re(r"\b(?:see|existing|read|refer(?:s|ring)? to)\b[^.;`]{0,60}$", re.IGNORECASE)
# What a sentence states of the thing before it: "x is gone", "x (generated)".
_BEHIND: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (
        "denies",
        lazy_re(
            r"[^.;`]{0,40}?\b(?:no longer|not exist|(?:was|were|been|is|are|got|gets?) (?:now )?"
            r"(?:remov|delet|drop|deprecat|renam|replac|gone|moved|not)\w*)|\s*\([^)]*"
            r"\b(?:remov|delet|deprecat|renam|legacy|old)\w*",
            re.IGNORECASE,
        ),
    ),
    (
        "makes",
        lazy_re(
            r"[^.;`]{0,30}?\b(?:is|are|be|gets?) (?:\w+ )?(?:creat|generat|writ|produc|sav)\w*"
            r"|\s*[(—–:-]+\s*(?:new|creat|generat|optional|auto-?generat)\w*\b",
            re.IGNORECASE,
        ),
    ),
    (
        "elsewhere",
        lazy_re(
            r"\s*\(?(?:in|of|from|on) (?:that|your|their|another|the (?:upstream|other))\b",
            re.IGNORECASE,
        ),
    ),
    (
        "template",
        lazy_re(
            r"[^.;`]{0,30}?\b(?:if (?:it|they|one|present|any|you|there|needed)|for example"
            r"|or (?:similar|equivalent|whatever))",
            re.IGNORECASE,
        ),
    ),
)
# A cell with what became of the first one of its row: "| `rloo_k` | renamed to ... |".
_CELL = lazy_re(
    r"\W*(?:now )?(?:removed|deleted|renamed|dropped|deprecated|replaced)\b", re.IGNORECASE
)
_SENTENCE = lazy_re(r"(?<=[.!?;:])\s+(?=\S)|\n\s*\n|(?<=\|)\s")
_CODE = lazy_re(r"`[^`]*`|<!--.*?-->|</?\w[^<>]*>|\]\([^()]*\)", re.DOTALL)
_COMMENT = lazy_re(r"(?:^|\s)(?:#|//|--)\s*(?P<text>.*)$")
_TITLE = lazy_re(r"^.*\*\*[^*`]*`[^*]*\*\*\s*[:—–-]\s")
_INNER = lazy_re(r"\([^()]*$")
_CLAUSE = 48
"""So many characters before a reference govern it; a longer way has other things in between."""
_SIDE = 80
"""So many on each side can leave open whether it is there."""


class Stand(NamedTuple):
    """What a text does with a reference: by its own clause, and by all that is around it."""

    near: Intent
    wide: Intent


def intent(reference: Reference) -> Stand:
    """Return what the text does with a reference, whatever its kind."""
    if reference.kind == "symlink":
        return Stand("asserts", "asserts")  # its own words are "is a symlink to"
    if reference.span is not None:
        span = reference.span
        before = _SENTENCE.split(_CODE.sub("`", span.before))[-1]
        after = _SENTENCE.split(_CODE.sub("`", span.after))[0]
        # "introduces cycles (e.g. `x`)": what opens the brackets is nearer than the words before.
        opened = before.rpartition("(")[2] if "(" in before else ""
        # A title is of what it names itself: "**`a.py` not found** — copy `b.py`".
        said = _TITLE.sub("", before)[-_CLAUSE:]
        is_place = reference.kind == "line" and before.rstrip(" ,;")[-1:] == "("
        if is_place or _INNER.search(span.text):
            before = said = ""  # the words are of what is there, or of what it should be
        near = (
            (_of(opened) if ")" not in opened else None)
            or _of(said)
            or _behind(after)
            or _in_row(span.block)
        )
        if near in (None, "template") and _SENT.search(before):
            return Stand("asserts", "asserts")
        around = _around(span.block)
        wide = near or _of(f"{before} {after}") or _open(before, after) or _of(around)
        return Stand(near or "asserts", wide or "asserts")
    if reference.block is not None:
        block = reference.block
        lead = _SENTENCE.split(_CODE.sub("`", block.lead).strip())[-1]
        comments = _comments(block, reference.line)
        above = _denied(lead) or _denied(" ".join(block.headings[-1:]))
        near = above or ("denies" if _AGAINST.search(comments) else None)
        wide = near or _of(f"{lead} {comments}") or _open(lead, comments)
        wide = wide or _of(" ".join(block.headings[-1:]))
        return Stand(near or "asserts", wide or "asserts")
    return Stand("asserts", "asserts")


def _around(block: Block) -> str:
    """Return the words above a block that hold for all of it: its heading, its introduction."""
    cells = block.info if block.kind == "cell" else ""
    return " ".join([*block.headings[-1:], *(each[-200:] for each in block.intros[-1:]), cells])


def _of(words: str) -> Intent | None:
    return next((name for name, group in _GROUPS if group.search(words)), None)


def _open(before: str, after: str) -> Intent | None:
    """Return "template" where the words that are near leave open whether a thing is there."""
    return "template" if _OPEN.search(f"{before[-_SIDE:]} {after[:_SIDE]}") else None


def _denied(words: str) -> Intent | None:
    return "denies" if _GROUPS[0][1].search(words) else None


def _behind(words: str) -> Intent | None:
    return next((name for name, group in _BEHIND if group.match(words)), None)


def _in_row(block: Block) -> Intent | None:
    """Return what the other cells say of the first one of a row of a table."""
    is_first = block.kind == "cell" and block.row[:1] == (block.text,)
    return "denies" if is_first and any(map(_CELL.match, block.row[1:])) else None


def _comments(block: Block, line: int) -> str:
    """Return the comments at a line of a block: on it, and above it up to an empty line."""
    rows = block.text.split("\n")
    at = line - block.line
    found: list[str] = []
    for number in range(min(at, len(rows) - 1), -1, -1):
        comment = _COMMENT.search(rows[number])
        is_alone = comment is not None and not rows[number][: comment.start()].strip()
        if number < at and not is_alone:
            break
        if comment is not None:
            found.append(comment["text"])
    return " ".join(found)
