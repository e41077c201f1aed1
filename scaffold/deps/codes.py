"""The error codes of dependencies."""

from __future__ import annotations

CODES: dict[str, str] = {
    "index_unreachable": "The package index cannot be reached.",
    "pins_conflict": "The requested pins conflict with other requirements.",
    "pins_missing": "No manifest pins the package, or none of them can be read.",
    "release_unknown": "The package index has no such release in a readable format.",
    "release_unreadable": "The archive of a release is broken, too large, or unsafe to unpack.",
    "requirement_invalid": "A package name, version or pin is invalid.",
    "resolver_failed": "The project's resolver failed.",
    "uses_missing": "A manifest pins the package, and no use of it was found.",
    "variant_unclear": "Variants of the project pin the package differently, and none was named.",
}
