"""Patterns of paths: one dialect, that of a .gitignore, wherever settings and rules name files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pathspec import GitIgnoreSpec


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path, or a folder above it, fits the patterns.

    Args:
        path: Relative to the root, with slashes.
        patterns: Read as lines of a .gitignore in the root: ``*`` within a folder, ``**`` across
            folders, a pattern without a slash at any depth, ``!`` to take out again.
    """
    return _spec(tuple(patterns)).match_file(path)


@cache
def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns)
