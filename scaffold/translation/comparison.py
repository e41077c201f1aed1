"""Two sections that have to agree, and their passages of the same place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scaffold.findings import Finding
from scaffold.translation.finding import disagreement
from scaffold.translation.page import Passage, Section


@dataclass(frozen=True)
class Comparison:
    """A section with the one that translates it."""

    page: str
    other: str
    source: Section
    translation: Section

    def finding(self, rule: str, line: int, found: str, expected: str, source: int) -> Finding:
        """Return a finding with both places."""
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
