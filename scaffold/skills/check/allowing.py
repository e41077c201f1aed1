"""Inline comments that allow a rule: ``<!-- scaffold: allow RULE reason -->``.

One counts for the line it is on, and alone on a line for the block that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scaffold.analysis.lazy_re import lazy_re
from scaffold.findings import Finding
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.rules import GONE, RULES, fault

_ALLOW = lazy_re(r"<!--\s*scaffold:\s*allow\s+(?P<rule>[\w-]+)[ \t]*(?P<reason>.*?)\s*-->")


@dataclass
class Allowance:
    """One comment.

    Args:
        rule: The rule that it names.
        reason: Why, in its author's words.
        line: Where it is.
        last: The last line that it counts for.
    """

    rule: str
    reason: str
    line: int
    last: int
    used: int = field(default=0)


def read_allowances(document: Document) -> list[Allowance]:
    """Return the comments of a document; one inside of fenced code is code."""
    found: list[Allowance] = []
    if "scaffold:" not in document.text:
        return found
    fenced = {
        number
        for fence in document.markdown.fences
        for number in range(fence.line - 1, fence.line + fence.text.count("\n") + 2)
    }
    for number, line in enumerate(document.lines, 1):
        if number in fenced:
            continue
        for each in _ALLOW.finditer(line):
            is_alone = line.strip() == each.group()
            last = _block_end(document.lines, number) if is_alone else number
            found.append(Allowance(each["rule"], each["reason"], number, last))
    return found


def apply_allowances(
    document: Document, findings: Sequence[Finding], allowances: list[Allowance]
) -> Iterator[Finding]:
    """Yield the findings that no comment allows."""
    for finding in findings:
        for each in allowances:
            if each.rule == finding.rule and each.line <= finding.line <= each.last and each.reason:
                each.used += 1
                break
        else:
            yield finding


def faults(document: Document, allowances: Sequence[Allowance]) -> Iterator[Finding]:
    """Yield what is wrong with the comments themselves; call it when all findings are known."""
    for each in allowances:
        if each.rule in GONE:
            message = f"there is no rule {each.rule} any more: remove the comment"
            yield fault(document.path, each.line, "allow-unused", each.rule, message)
        elif each.rule not in RULES:
            yield fault(
                document.path,
                each.line,
                "allow-unknown",
                each.rule,
                f"there is no rule {each.rule!r}",
            )
        elif not each.reason:
            message = f"the comment that allows {each.rule} gives no reason"
            yield fault(document.path, each.line, "allow-reason", each.rule, message)
        elif not each.used:
            message = f"{each.rule} finds nothing here: remove the comment"
            yield fault(document.path, each.line, "allow-unused", each.rule, message)


def _block_end(lines: Sequence[str], number: int) -> int:
    """Return the last line of the block below a line, from 1."""
    index = number
    while index < len(lines) and not lines[index].strip():
        index += 1
    if index < len(lines) and (fence := re.match(r"\s*(`{3,}|~{3,})", lines[index])):
        mark = fence[1]
        index += 1
        while index < len(lines) and not lines[index].strip().startswith(mark):
            index += 1
        return index + 1
    while index < len(lines) and lines[index].strip():
        index += 1
    return index
