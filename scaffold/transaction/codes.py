"""The error codes of changes on disk."""

from __future__ import annotations

CODES: dict[str, str] = {
    "journal_unfinished": "An earlier run was interrupted and cannot be settled automatically.",
    "locked": "Another scaffold command is writing to the same place.",
}
