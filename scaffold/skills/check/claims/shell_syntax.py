"""Blocks of shell: are their quotes, here-documents, loops and conditions closed?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.shell_words import Fault, Script
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import shell_of
from scaffold.skills.check.claims.shell_call import FOREIGN
from scaffold.skills.check.context import block_silence
from scaffold.skills.check.documents import Document

_STARTS = lazy_re(
    r"^\s*(?:sudo |\w+=\S+ |export )*(?:python3?|bash|sh|uv|make|pytest|\./\S+|\w+=)(?=[\s\"'(]|$)"
)
_SKETCH = lazy_re(r"\.\.\.|…|<[a-z][^>\n]*>|\[[^\]\n]*\||^\s*[-*] |^\s*\d+\. ", re.MULTILINE)

_CLOSED_BY = {"if": "fi", "case": "esac"} | dict.fromkeys(
    ("for", "while", "until", "select"), "done"
)
# What makes plain that a word was meant as a keyword: "if" alone begins many an English line.
_CONFIRMED_BY = {"then": "fi", "do": "done"}
_PASSED = frozenset({"then", "do", "else", "elif", "!", "time", "{"})


class _Opened(NamedTuple):
    line: int
    word: str
    is_plain: bool


def unclosed(script: Script) -> Fault | None:
    """Return the first loop or condition that no word of the block closes, or None."""
    opened: list[_Opened] = []
    for simple in script.commands:
        for word in simple.words:
            text = "" if word.is_quoted else word.text
            if text in _CLOSED_BY:
                is_plain = text == "case" and simple.words[-1].text == "in"
                opened.append(_Opened(word.line, text, is_plain))
            else:
                opened = _after(text, opened)
            if text not in _PASSED and text != "if":
                break  # what follows are arguments
    plain = next((each for each in opened if each.is_plain), None)
    return Fault(plain.line, "compound", plain.word) if plain else None


def _after(text: str, opened: list[_Opened]) -> list[_Opened]:
    """Return what is open behind a word: one less behind `done`, and certain behind `do`."""
    if opened and _CLOSED_BY[opened[-1].word] == _CONFIRMED_BY.get(text):
        return [*opened[:-1], opened[-1]._replace(is_plain=True)]
    closed = [at for at, each in enumerate(opened) if _CLOSED_BY[each.word] == text]
    return opened[: closed[-1]] if closed else opened


def find_shell_blocks(document: Document) -> Iterator[Claim]:
    """Yield the blocks that are shell for certain."""
    for block, script in shell_of(document).fences:
        if block.is_closed and block.text.strip():
            first = block.text.strip().split("\n")[0]
            line, what = block.line, first
            fault = script.faults[0] if script.faults else unclosed(script)
            if fault is not None:
                at = fault.line
                line, what = block.line + at, block.text.split("\n")[at].strip()
            reason = block_silence(block) or ""
            yield Claim("shell", what, line, 1, (fault, block.text, reason))


def judge_shell_block(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a block of shell."""
    del document, repository  # the text alone decides
    fault: Fault | None
    fault, text, reason = claim.data
    if fault is None:
        return Verdict.holds("all that it opens is closed")
    if reason or _SKETCH.search(text):
        return Verdict.open(reason or "it is a sketch and no shell")
    first = claim.text.split(maxsplit=1)[0] if claim.text else ""
    if fault.what == "quote" and first not in FOREIGN and not _STARTS.match(claim.text):
        return Verdict.open("the line may be no shell")
    if fault.what == "compound":
        closing = _CLOSED_BY[fault.text]
        return Verdict.fails(
            "shell-syntax",
            f"the {fault.text!r} is not closed",
            f"no {closing!r} follows it in the block",
        )
    if fault.what == "heredoc":
        return Verdict.fails(
            "shell-syntax",
            f"the here-document that ends at {fault.text} is not closed",
            f"no line of the block is {fault.text}",
        )
    return Verdict.fails(
        "shell-syntax",
        f"the quote {fault.text} is not closed",
        f"no {fault.text} follows it in the block",
    )


SHELL_BLOCKS = Kind("shell", find_shell_blocks, judge_shell_block)
