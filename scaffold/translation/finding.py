"""The places where a translation disagrees with its page, and the sections that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaffold.findings import Finding
from scaffold.translation.page import Passage, Section

RULES = {
    "admonition": "admonitions are of the same sort",
    "anchor": "anchors that a page sets are set in its translation",
    "code": "blocks of code are the same but for their comments",
    "comment": "comments are as many, and direct tools in the same words",
    "front-matter": "the front matter has the same keys",
    "heading": "every section is there, at its level, and no other",
    "html": "HTML has the same tags and attributes",
    "image": "images are the same, or made for the language",
    "inline-code": "each text, item and cell has the same inline code",
    "link": "links lead to the same, translated where that exists",
    "list": "lists are of the same sort and length",
    "marker": "a section has one marker",
    "number": "the numbers are the same",
    "order": "sections have the order of the page",
    "page": "a page that is named has a translation",
    "paragraph": "paragraphs are as many in each place",
    "quote": "quotations are as many",
    "rule": "horizontal rules are as many",
    "table": "tables have as many rows and columns",
    "term": "the terms of the glossary are used",
    "untranslated": "no sentence is left in English",
}
"""What is compared, with what it asks for."""


def disagreement(
    path: str, line: int, rule: str, found: str, expected: str, source: str = ""
) -> Finding:
    """Return the finding that a translation disagrees with its page.

    Args:
        rule: What disagrees, in one word.
        source: The place in the page, as file:line.
    """
    message = f"found {found}, expected {expected}"
    # The fields are those of all findings: the claim is what was found, the evidence the page's
    # place, and `now` what was expected.
    return Finding(path, line, 1, rule, found, message, source, expected)


def to_row(finding: Finding) -> str:
    where = f" ({finding.evidence})" if finding.evidence else ""
    return f"{finding.path}:{finding.line}: {finding.rule}: {finding.message}{where}"


def to_json(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.path,
        "line": finding.line,
        "rule": finding.rule,
        "found": finding.claim,
        "expected": finding.now,
        "source": finding.evidence,
        "asks": RULES[finding.rule],
    }


@dataclass(frozen=True)
class Comparison:
    """A section with the one that translates it."""

    page: str
    other: str
    source: Section
    translation: Section

    def finding(self, rule: str, line: int, found: str, expected: str, source: int) -> Finding:
        return disagreement(self.other, line, rule, found, expected, f"{self.page}:{source}")

    def passages(self, *, is_same_shape: bool) -> Iterator[tuple[Passage, Passage]]:
        """Yield the passages of the same place.

        Args:
            is_same_shape: Whether the blocks agree; if not, all text of a section is one passage.
        """
        # Slots count blocks, so with other blocks they name other places.
        if not is_same_shape:
            yield _joined(self.source), _joined(self.translation)
            return
        ours = {passage.slot: passage for passage in self.source.passages}
        theirs = {passage.slot: passage for passage in self.translation.passages}
        for slot in {**ours, **theirs}:
            yield (
                # A place that only one side has is compared with an empty passage.
                ours.get(slot, Passage(slot, self.source.line)),
                theirs.get(slot, Passage(slot, self.translation.line)),
            )


def _joined(section: Section) -> Passage:
    found = Passage((), section.line)
    for passage in section.passages:
        found.join(passage)
    return found
