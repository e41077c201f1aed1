"""The links of a document that lead to no other site."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.placeholders import is_placeholder

_SCHEME = lazy_re(r"^(?:[a-z][a-z0-9+.-]*:|//|#!|@)", re.IGNORECASE)


def unquoted(text: str) -> str:
    """Return a destination without its percent signs."""
    if "%" not in text:
        return text
    from urllib.parse import unquote  # 3 ms, and few links need it

    return unquote(text)


def find_links(document: Document) -> Iterator[Reference]:
    """Yield the links to files and to headings."""
    for span in document.markdown.links:
        if not _SCHEME.match(span.text) and not is_placeholder(unquoted(span.text)):
            yield Reference("link", span.text, span.line, span.column, span=span)
