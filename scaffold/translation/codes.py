"""The error codes of translated pages."""

from __future__ import annotations

CODES: dict[str, str] = {
    "docs_missing": "No pages with a Chinese translation were found.",
    "page_unknown": "No page of this name is to be translated.",
}
