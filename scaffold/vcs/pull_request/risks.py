"""What a reviewer of a branch should look at first, and which tests near it were run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_WORD = re.compile(r"[^\s'\"`]+")
_SELECTING = frozenset({"-k", "-run", "--testNamePattern"})
"""Options by which a runner takes some tests of what it is given."""


class Risk(NamedTuple):
    """A subject that a branch touches.

    Attributes:
        title: Its name.
        severity: How much harm a fault would do.
        look: What to look at.
        paths: The changed files of it.
    """

    title: str
    severity: str
    look: str
    paths: tuple[str, ...]


class Surroundings(NamedTuple):
    """What a branch touches beside its own lines.

    Attributes:
        risks: The gravest first.
        tests: Test files that change, or are named after a changed file.
    """

    risks: tuple[Risk, ...] = ()
    tests: tuple[str, ...] = ()


class NearTests(NamedTuple):
    """The tests that are near to what a branch changes.

    Attributes:
        covered: By a command that was run.
        left: Those that no such command covers.
    """

    covered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def near_tests_run(near: Sequence[str], commands: Sequence[str]) -> NearTests:
    """Divide test files into those that commands cover and the others.

    A command that names no test file, and no folder of one, covers all, as ``make test`` does.

    Args:
        near: Test files, from the root.
        commands: What was run.
    """
    named = [
        {word.partition("::")[0].rstrip("/:,;.") for word in _WORD.findall(command)}
        for command in commands
    ]
    # `pytest tests -k grpo` runs what it names, and not the folder.
    chosen = [words for words in named if words & _SELECTING]
    named = [words for words in named if words not in chosen]
    selected = {path for words in chosen for path in near if _stem(path) & words}
    places = {place for path in near for place in _places(path)}
    if any(not places & words for words in named):
        return NearTests(tuple(near))
    words = selected.union(*named)
    covered = tuple(path for path in near if words.intersection(_places(path)))
    return NearTests(covered, tuple(path for path in near if path not in covered))


def _stem(path: str) -> set[str]:
    """Return the words of a test file's name, and the name itself."""
    stem = path.rpartition("/")[2].partition(".")[0]
    return {path, stem, *stem.split("_")} - {"test", "tests"}


def _places(path: str) -> list[str]:
    """Return a path and the folders that it is in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
