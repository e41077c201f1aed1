"""Blocks of shell: are their quotes and here-documents closed?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.repository.shell_words import Fault, Script
from scaffold.repository.whole import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.shell import shell_of
from scaffold.skills.check.claims.shell_call import FOREIGN
from scaffold.skills.check.context import block_silence
from scaffold.skills.check.documents import Document

_STARTS = re.compile(
    r"^\s*(?:sudo |\w+=\S+ |export )*(?:python3?|bash|sh|uv|make|pytest|\./\S+|\w+=)(?=[\s\"'(]|$)"
)
_SKETCH = re.compile(r"\.\.\.|…|<[a-z][^>\n]*>|\[[^\]\n]*\||^\s*[-*] |^\s*\d+\. ", re.MULTILINE)


def find_shell_blocks(document: Document) -> Iterator[Claim]:
    """Yields the blocks that are shell for certain."""
    for block, script in shell_of(document).fences:
        if block.is_closed and block.text.strip():
            first = block.text.strip().split("\n")[0]
            line, what = block.line, first
            if script.faults:
                at = script.faults[0].line
                line, what = block.line + at, block.text.split("\n")[at].strip()
            reason = block_silence(block) or ""
            yield Claim("shell", what, line, 1, (script, block.text, reason))


def judge_shell_block(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judges a block of shell."""
    del document, repository  # the text alone decides
    script: Script
    script, text, reason = claim.data
    if not script.faults:
        return Verdict.holds("its quotes and here-documents are closed")
    fault: Fault = script.faults[0]
    if reason or _SKETCH.search(text):
        return Verdict.open(reason or "it is a sketch and no shell")
    first = claim.text.split(maxsplit=1)[0] if claim.text else ""
    if fault.what == "quote" and first not in FOREIGN and not _STARTS.match(claim.text):
        return Verdict.open("the line may be no shell")
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
