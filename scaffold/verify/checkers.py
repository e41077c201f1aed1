"""The checkers that a repository configures, on the files of one unit: ruff, mypy and pyright.

They run as modules of the target's interpreter, else as programs of its environment or on PATH.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.target.target import Target
from scaffold.units.ledger import Unit, sound_units
from scaffold.units.todos import OpenTodo, is_marked, open_todos
from scaffold.verify.checks import Check, failed, warning
from scaffold.verify.interpreter import Interpreter
from scaffold.verify.process import run_limited

TIMEOUT_S = 60.0
FINDING = re.compile(r":\d+:\d+: (\S+)")
"""A finding of ruff: line, column and rule."""

MAX_SHOWN = 5
"""How many findings of one checker are repeated."""


class Checker(NamedTuple):
    """One way to run a program over files.

    Args:
        program: Its module and its command.
        words: Its arguments in front of the files.
        files: Names that configure it, beside a table of pyproject.toml.
        repair: The command that fixes its findings, where there is one.
        is_of_style: Whether its findings are a matter of convention, which the repository's other
            files show.
    """

    program: str
    words: tuple[str, ...]
    files: tuple[str, ...]
    repair: tuple[str, ...] = ()
    is_of_style: bool = False


RUFF = ("ruff.toml", ".ruff.toml")
CHECKERS = (
    Checker(
        "ruff",
        ("check", "--no-cache", "--no-fix", "--force-exclude", "--output-format", "concise"),
        RUFF,
        is_of_style=True,
    ),
    Checker(
        "ruff",
        ("format", "--no-cache", "--check", "--force-exclude"),
        RUFF,
        ("ruff", "format"),
        is_of_style=True,
    ),
    Checker("mypy", ("--no-error-summary", "--cache-dir", "/dev/null"), ("mypy.ini", ".mypy.ini")),
    Checker("pyright", (), ("pyrightconfig.json",)),
)


def check_files(target: Target, unit: Unit, python: Interpreter) -> list[Check]:
    """Run every checker that the target configures on the unit's Python files."""
    paths = [file.path for file in unit.files if file.path.endswith(".py")]
    todos = open_todos(target.root, unit)
    tables = _tool_tables(target.root)
    found: list[Check] = []
    for checker in CHECKERS:
        table = tables.get(checker.program)
        if table is None and not any((target.root / each).is_file() for each in checker.files):
            continue
        covered = [each for each in paths if _covers(checker, table or {}, each)]
        if covered:
            found += _run(checker, target.root, python, covered, todos)
    # Two ways to run a program that is not there are one finding.
    return list(dict.fromkeys(found))


def _run(
    checker: Checker,
    root: Path,
    python: Interpreter,
    paths: Sequence[str],
    todos: Sequence[OpenTodo],
) -> list[Check]:
    program = _program(checker.program, root, python)
    if program is None:
        text = f"not run: {checker.program}, which the repository configures, is not installed"
        return [warning("style", text)]
    done = run_limited([*program, *checker.words, *paths], root, TIMEOUT_S, {})
    if done.status == 0:
        return []
    # A type checker reports what the files import too, which is not the unit's, and pyright has a
    # line with the name of each file.
    ends = "" if checker.is_of_style else ":"
    rows = [row for row in done.output.splitlines() if any(path + ends in row for path in paths)]
    if done.status is None or not rows:
        text = f"{checker.program} {done.describe()}: {done.last_lines()}"
        return [warning("style", f"not run: {text}")]
    waiting = [row for row in rows if _is_in_todo(row, root, paths, todos)]
    rows = [row for row in rows if row not in waiting]
    found = [
        warning("style", f"{row}; what is written there is yours")
        for row in _shown(checker, waiting)
    ]
    if not checker.is_of_style:
        return [*(failed("style", row) for row in _shown(checker, rows)), *found]
    free = _broken_beside([*program, *checker.words], root, paths) if rows else set[str]()
    wrong = [row for row in rows if _rule(row) not in free]
    found += [
        warning("style", f"{row}; the files beside it break this rule too")
        for row in _shown(checker, [row for row in rows if row not in wrong])
    ]
    if wrong and checker.repair:
        return [failed("style", f"not formatted; run {' '.join([*checker.repair, *paths])}")]
    return [*(failed("style", row) for row in _shown(checker, wrong)), *found]


def _shown(checker: Checker, rows: Sequence[str]) -> list[str]:
    return [f"{checker.program}: {' '.join(row.split())}" for row in rows[:MAX_SHOWN]]


def _is_in_todo(row: str, root: Path, paths: Sequence[str], todos: Sequence[OpenTodo]) -> bool:
    """Return whether a finding is about a place that the author has not written yet."""
    for path in paths:
        at = re.search(rf"{re.escape(path)}:(\d+):", row)
        if at is not None:
            return is_marked(root, todos, path, int(at[1]))
    return False


def _broken_beside(words: Sequence[str], root: Path, paths: Sequence[str]) -> set[str]:
    """Return the rules that the repository's own files beside a unit break.

    The repository does not hold itself to those: they are new in the checker's release here, or
    nobody runs it. What the tool made has no part in that.
    """
    units, _ = sound_units(root)
    made = {root / path for path in paths}
    made |= {root / file.path for unit in units for file in unit.files}
    folders = dict.fromkeys((root / path).parent for path in paths)
    beside = {file for each in folders for file in _files_beside(each, root, made)}
    others = sorted(file.relative_to(root).as_posix() for file in beside)
    if not others:
        return set()
    done = run_limited([*words, *others], root, TIMEOUT_S, {})
    rows = done.output.splitlines() if done.status is not None else []
    return {_rule(row) for row in rows if any(path in row for path in others)}


def _files_beside(folder: Path, root: Path, made: set[Path]) -> set[Path]:
    """Return the Python files of a folder; where it is all the unit's, those around it."""
    found = {*folder.glob("*.py")} - made
    while not found and folder != root:
        folder = folder.parent
        found = {*folder.rglob("*.py")} - made if folder != root else found
    return found


def _rule(row: str) -> str:
    """Return the rule of a finding such as `a.py:3:1: E501 ...`, "" of one about formatting."""
    match = FINDING.search(row)
    return match[1] if match else ""


def _program(name: str, root: Path, python: Interpreter) -> list[str] | None:
    if name in python.packages:
        return [*python.argv, "-m", name]
    folders = (root / ".venv" / "bin", Path(sys.executable).parent)
    beside = (shutil.which(name, path=str(folder)) for folder in folders)
    found = next(filter(None, beside), None) or shutil.which(name)
    return [found] if found else None


def _covers(checker: Checker, table: Mapping[str, Any], path: str) -> bool:
    """Return whether a checker's own list of files has a path; an empty list has every one."""
    included = _texts(table.get("include" if checker.program == "pyright" else "files"))
    excluded = _texts(table.get("exclude")) if checker.program == "pyright" else []
    if checker.program == "ruff":
        return True
    return (not included or _is_in(path, included)) and not _is_in(path, excluded)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return re.split(r"[,\s]+", value.strip())
    return [str(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def _is_in(path: str, places: Sequence[str]) -> bool:
    trimmed = [each.removeprefix("./").rstrip("/") for each in places]
    return any(each in ("", ".") or f"{path}/".startswith(f"{each}/") for each in trimmed)


def _tool_tables(root: Path) -> dict[str, Any]:
    """Return what configures each checker, from pyproject.toml and pyright's own file."""
    found: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        found |= tomllib.loads((root / "pyproject.toml").read_text("utf-8")).get("tool", {})
    with suppress(OSError, ValueError):
        found["pyright"] = json.loads((root / "pyrightconfig.json").read_text("utf-8"))
    return {name: table for name, table in found.items() if isinstance(table, dict)}
