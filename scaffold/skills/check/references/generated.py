"""Generated blocks: what is between their comments follows from the repository."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference


def find_generated(document: Document) -> Iterator[Reference]:
    """Yield the generated blocks of a document."""
    if "scaffold:begin" in document.text or "scaffold:end" in document.text:
        from scaffold.skills.blocks.markers import parse_blocks

        for block in parse_blocks(document.text):
            text = " ".join((block.kind, *block.words))
            yield Reference("generated", text, block.line, 1, block)
