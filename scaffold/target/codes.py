"""The error codes of the repository that is extended."""

from __future__ import annotations

CODES: dict[str, str] = {
    "target_ambiguous": "The folder is in two nested targets.",
}
