"""The error codes of jobs of several processes."""

from __future__ import annotations

CODES: dict[str, str] = {
    "mesh_invalid": "The layout of ranks cannot be read.",
    "program_missing": "The program was not found, or cannot be started.",
    "record_invalid": "A recording of a job cannot be read, or lacks the requested data.",
}
