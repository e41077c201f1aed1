"""Patterns of paths, as rules and roles write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tells whether a path fits one of the patterns.

    ``*`` stands for anything within a folder, ``**`` for any folders; a pattern without a slash is
    for the file's own name, wherever the file lies; one that ends in a slash is for all below.
    """
    return any(_compiled(each).match(path) is not None for each in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    lead = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    whole = f"{pattern}**" if pattern.endswith("/") else pattern
    return re.compile(f"{lead}{_translated(whole)}\\Z", re.DOTALL)


def _translated(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(part, re.escape(part)) for part in parts)
