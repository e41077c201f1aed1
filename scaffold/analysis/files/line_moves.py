"""Where the lines of a file that a page gives by their numbers went since the page was written."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re

Git = Callable[[Sequence[str]], str]
"""Runs git with some words, and returns what it prints."""

_ORIGIN = lazy_re(r"^(?P<commit>[0-9a-f]{40,64}) \d+ (?P<line>\d+)")
_TIME = "committer-time "
_HUNK = lazy_re(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@", re.MULTILINE)


class Spot(NamedTuple):
    """Lines of a file that a line of a page names."""

    page: str
    page_line: int
    path: str
    line: int
    end: int


class Move(NamedTuple):
    """Where lines are now.

    Args:
        commit: The commit that wrote the line of the page.
        date: Its day, as ``2025-01-31``.
        line: Where the first line is now; 0 where it was changed.
        end: Where the last one is.
    """

    commit: str
    date: str
    line: int
    end: int


def moved_lines(spots: Collection[Spot], git: Git) -> dict[Spot, Move]:
    """Return where each of some lines is now, as far as its text is what it was.

    A page is asked for the commit that wrote its line, and the file for what changed since.
    """
    found: dict[Spot, Move] = {}
    hunks: dict[tuple[str, str], list[tuple[int, int, int]] | None] = {}
    for page in sorted({each.page for each in spots}):
        own = [each for each in spots if each.page == page]
        origins = line_origins(page, sorted({each.page_line for each in own}), git)
        for spot in own:
            commit, date = origins.get(spot.page_line, ("", ""))
            if not commit.strip("0"):
                continue  # it is not committed yet
            key = (commit, spot.path)
            if key not in hunks:
                hunks[key] = _hunks(commit, spot.path, git)
            if (changes := hunks[key]) is not None:
                line, end = (_now(each, changes) for each in (spot.line, spot.end))
                found[spot] = Move(commit, date, line, end)
    return found


def line_origins(page: str, lines: Sequence[int], git: Git) -> dict[int, tuple[str, str]]:
    """Return the commit that wrote each of some lines, and its day."""
    ranges = [word for each in lines for word in ("-L", f"{each},{each}")]
    text = git(("blame", "--porcelain", *ranges, "--", page))
    found: dict[int, tuple[str, str]] = {}
    dates: dict[str, str] = {}
    commit = ""
    for row in text.split("\n"):
        if origin := _ORIGIN.match(row):
            commit = origin["commit"]
            found[int(origin["line"])] = (commit, "")
        elif row.startswith(_TIME):
            moment = datetime.datetime.fromtimestamp(int(row[len(_TIME) :]), datetime.UTC)
            dates[commit] = moment.date().isoformat()
    return {line: (each, dates.get(each, "")) for line, (each, _) in found.items()}


def _hunks(commit: str, path: str, git: Git) -> list[tuple[int, int, int]] | None:
    """Return what changed in a file since a commit, as first line, old and new number of lines.

    None where the commit has no such file.
    """
    words = ("diff", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative")
    text = git((*words, commit, "HEAD", "--", path))
    if "\n--- /dev/null\n" in text:
        return None
    found = _HUNK.findall(text)
    return [(int(at), int(old or 1), int(new or 1)) for at, old, new in found]


def _now(line: int, changes: Sequence[tuple[int, int, int]]) -> int:
    """Return the number that a line has now, or 0 where it was changed."""
    shift = 0
    for at, old, new in changes:
        # Without an old line, the new ones come after the line that is named.
        if line < at + (old == 0):
            break
        if line < at + old:
            return 0
        shift += new - old
    return line + shift
