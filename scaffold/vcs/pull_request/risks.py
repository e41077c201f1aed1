"""What a reviewer of a branch should look at first, and which tests near it were run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from scaffold.analysis.project.pytest_names import marker_expression
from scaffold.analysis.project.test_marks import Marks, selected

_WORD = re.compile(r"[^\s'\"`]+")
_SELECTING = frozenset({"-k", "-run", "--testNamePattern"})
"""Options by which a runner takes some tests of what it is given."""


_ONE = (frozenset[str](),)
"""The markers of a file of which no test was read: it counts as one, and has none."""


class Risk(NamedTuple):
    """A subject that a branch touches.

    Attributes:
        severity: How much harm a fault would do.
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
        marks: The markers of the tests in each of them.
        default: The expression of markers that pytest goes by where a command gives none.
    """

    risks: tuple[Risk, ...] = ()
    tests: tuple[str, ...] = ()
    marks: Mapping[str, Marks] = MappingProxyType({})
    default: str = ""


class NearTests(NamedTuple):
    """The tests that are near to what a branch changes.

    Attributes:
        covered: Files all of whose tests a command ran.
        left: Files of which no command ran any.
        partly: Files of which markers left tests out, with how many ran of how many.
    """

    covered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    partly: tuple[tuple[str, int, int], ...] = ()


def near_tests_run(near: Surroundings, commands: Sequence[str]) -> NearTests:
    """Divide test files into those that commands cover and the others.

    A command that names no test file, and no folder of one, covers all, as ``make test`` does. Of
    what a command of pytest covers, those tests ran that its markers, or the usual ones, select.
    """
    ran: dict[str, set[int]] = {}
    for command in commands:
        _, program, options = f"{command} ".rpartition("pytest ")
        # The author's results stand behind a colon.
        asked = marker_expression(options.partition(": ")[0]) if program else ""
        chosen = near.default if asked is None else asked
        for path in _named_by(command, near.tests, is_pytest=bool(program)):
            ran.setdefault(path, set()).update(selected(near.marks.get(path) or _ONE, chosen))
    wholes = {path: len(near.marks.get(path) or _ONE) for path in near.tests}
    parts = [(path, len(ran.get(path, ())), whole) for path, whole in wholes.items()]
    return NearTests(
        tuple(path for path, part, whole in parts if part == whole),
        tuple(path for path, part, _ in parts if not part),
        tuple(row for row in parts if 0 < row[1] < row[2]),
    )


def _named_by(command: str, near: Sequence[str], *, is_pytest: bool) -> Sequence[str]:
    """Return the test files that a command takes, whatever their markers."""
    words = {word.partition("::")[0].rstrip("/:,;.") for word in _WORD.findall(command)}
    # `pytest tests -k grpo` runs what it names, and not the folder.
    if words & _SELECTING:
        return [path for path in near if _stem(path) & words]
    named = [path for path in near if words.intersection(_places(path))]
    # A file of other tests is named, and none of these.
    is_elsewhere = is_pytest and any(word.endswith(".py") for word in words)
    return named if named or is_elsewhere else near


def _stem(path: str) -> set[str]:
    """Return the words of a test file's name, and the name itself."""
    stem = path.rpartition("/")[2].partition(".")[0]
    return {path, stem, *stem.split("_")} - {"test", "tests"}


def _places(path: str) -> list[str]:
    """Return a path and the folders that it is in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
