"""The issue that a branch is for, by its name."""

from __future__ import annotations

import re

# `feature/ABC-12-title`; then `fix/123-title`, `issue-45`, `gh-7`; and `release-1.2`, `v2.x`.
_TRACKER = re.compile(r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-[1-9][0-9]*)(?![0-9A-Za-z])")
_NUMBER = re.compile(
    r"(?:^|/)(?:#|gh-?|issues?[-_/]|fix(?:es)?[-_/#]|bugs?[-_/]|pr-)?([1-9][0-9]{0,6})(?=$|[-_/])",
    re.IGNORECASE,
)
_NO_ISSUE = re.compile(r"(?:^|/)(?:v?\d+(?:\.\d+|\.x)|\d{4}-\d{2}|20\d{2}[-_/]|release|dependabot)")


def branch_references(branch: str) -> tuple[str, ...]:
    """Return the issues in a branch's name, such as "#123" and "ABC-12".

    Versions, dates and the branches of robots are no issues.
    """
    tracked = _TRACKER.findall(branch)
    # A tracker's key is unmistakable; a bare number may be many things.
    if tracked:
        return tuple(dict.fromkeys(tracked))
    if _NO_ISSUE.search(branch):
        return ()
    match = _NUMBER.search(branch)
    return (f"#{match[1]}",) if match else ()
