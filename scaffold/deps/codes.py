"""The error codes of dependencies."""

from __future__ import annotations

CODES: dict[str, str] = {
    "index_unreachable": "The package index cannot be reached.",
    "pins_conflict": "The pins that were asked for do not go together with others.",
    "pins_missing": "No manifest pins the package, or none of them can be read.",
    "release_unknown": "The package index has no such release that can be read as files.",
    "release_unreadable": "The archive of a release is broken, too large, or unsafe to unpack.",
    "requirement_invalid": "A package's name, version or pin is none.",
    "resolver_failed": "The resolver of the project ended without an answer.",
}
