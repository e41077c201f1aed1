"""The error codes of jobs of several processes."""

from __future__ import annotations

CODES: dict[str, str] = {
    "mesh_invalid": "The layout of ranks cannot be read.",
    "program_missing": "The program that is to be run was not found, or cannot be started.",
    "record_invalid": "A record of a job cannot be read, or holds not what is asked for.",
}
