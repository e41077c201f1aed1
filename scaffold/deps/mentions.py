"""Lines that name the release a package leaves: what no edit reaches is at least named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from scaffold.analysis.files.files import Files
from scaffold.deps.pin import Pin, name_pattern

# A release of two numbers or more, as specifiers and tags have it; one number says nothing.
_RELEASE = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+]*")
_MOST_BYTES = 2_000_000
_OPERATOR = r"(?:===?|[<>~!]=|[<>])\s*"
# `plugin>=1,<` before a release: what is pinned there is another package.
_PINNED = re.compile(
    rf"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:{_OPERATOR}[\w.*+]+\s*,\s*)*{_OPERATOR}v?$"
)


def mentions(
    files: Files, pins: Mapping[str, Iterable[Pin]], locks: frozenset[str]
) -> dict[str, list[int]]:
    """Return the lines that name an old release, or pin the package, and were not edited.

    Args:
        files: The tree's files, edited.
        pins: The pins that moved, by package.
        locks: The files that a resolver renews, left out here.
    """
    found: dict[str, list[int]] = {}
    moved = [pin for rows in pins.values() for pin in rows]
    old = {release for pin in moved for release in _RELEASE.findall(pin.spec)}
    names = [rf"{name_pattern(name)}(?:\[[^\]\s]*\])?\s*==" for name in pins]
    names += [rf"(?<![\w.])v?{re.escape(each)}(?![A-Za-z0-9]|\.\d)" for each in sorted(old)]
    pattern = re.compile("|".join(names))
    own = re.compile("|".join(map(name_pattern, pins)))
    edited = {(pin.path, pin.line) for pin in moved}
    for path in sorted(files.paths):
        data = files.data(path) or b""
        if path in locks or b"\0" in data[:1024] or len(data) > _MOST_BYTES:
            continue
        text = data.decode("utf-8", "replace")
        if pattern.search(text):
            rows = enumerate(text.splitlines(), 1)
            lines = [
                at for at, row in rows if (path, at) not in edited and _names(pattern, row, own)
            ]
            found |= {path: lines} if lines else {}
    return found


def _names(pattern: re.Pattern[str], row: str, own: re.Pattern[str]) -> bool:
    """Return whether a line names a release otherwise than as a pin of another package."""
    for found in pattern.finditer(row):
        pinned = _PINNED.search(row[: found.start()])
        if pinned is None or own.fullmatch(pinned[1]):
            return True
    return False
