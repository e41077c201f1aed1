"""The error codes of translated pages."""

from __future__ import annotations

CODES: dict[str, str] = {
    "docs_missing": "No page with a Chinese translation was found.",
    "page_unknown": "There is no page of this name to translate.",
}
