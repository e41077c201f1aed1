"""What `scaffold init --like` finds in public repositories, beside what a person wrote down before.

``kinds.toml`` has a unit of each repository and what a careful reader found of it: its files, how
many registry lines each file has, the files with a line to write by hand, and those that may be
taken either way. The kind is learned in a clone, a unit is made and removed, and git says what is
left. Clones are looked for in the folder that ``AREAL_GUIDANCE_CORPUS`` or ``--corpus`` names, as
``<owner>+<name>``; what is not there, or lacks the commit, is left out and named.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.processes import ONE_THREAD
from benchmarks.results import Result
from benchmarks.settings import ROOT, Settings
from benchmarks.skills.truth import VARIABLE

EXPECTED = Path(__file__).with_suffix(".toml")
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True)
class Expected:
    """What a reader of a repository found of a unit.

    Args:
        repository: Its name, as ``owner/name``.
        commit: The commit that was read.
        like: The unit's path.
        new: The name of the unit that is made.
        answers: What is asked for it, by option.
        files: The unit's own files.
        lines: File to the number of its registry lines.
        by_hand: The files with a line for a person.
        either: Files that a reader may count among the kind's or not.
    """

    repository: str
    commit: str
    like: str
    new: str
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    files: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    by_hand: tuple[str, ...] = ()
    either: tuple[str, ...] = ()

    def items(self) -> Counter[str]:
        """Return what was found, one item a file, a registry line, or a file to look at."""
        lines = Counter({f"line {path}": count for path, count in self.lines.items()})
        return lines + Counter([f"file {path}" for path in self.files]) + Counter(
            [f"hand {path}" for path in self.by_hand]
        )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What the tool did in one repository.

    Args:
        items: What it found, as `Expected.items` has it.
        left: What git says after the new unit was removed.
        broken: The made modules that are no Python, or hold nothing.
        unimportable: What the import of a made unit said, where those of others work.
    """

    items: Counter[str]
    left: str
    broken: tuple[str, ...]
    unimportable: tuple[str, ...]


def run(settings: Settings) -> list[Result]:
    """Learn a kind in every clone that is there, and return the table."""
    place = settings.corpus or os.environ.get(VARIABLE)
    rows: list[Result] = []
    told: dict[str, tuple[Expected, Outcome]] = {}
    missing: list[str] = []
    for each in read_expected(EXPECTED):
        clone = Path(place) / each.repository.replace("/", "+") if place else None
        if clone is None or not clone.is_dir():
            missing.append(f"{each.repository} (no clone)")
            continue
        with tempfile.TemporaryDirectory(prefix="areal-kinds-") as folder:
            root = Path(folder) / "clone"
            why = check_out(clone, each.commit, root)
            if why:
                missing.append(f"{each.repository} ({why})")
                continue
            told[each.repository] = each, try_out(each, root)
    for name, (expected, outcome) in told.items():
        rows.append(_of_one(name, expected, outcome))
    if told:
        rows += _of_all(told.values())
    if missing:
        rows.append(Result("kinds.left_out", "left out", float(len(missing)), "repositories",
                           note="; ".join(missing)))  # fmt: skip
    return rows


def read_expected(path: Path) -> list[Expected]:
    """Return what readers found.

    Raises:
        TypeError: A table has a key that is none of the fields.
    """
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["repository"]
    return [Expected(**{key: _frozen(value) for key, value in row.items()}) for row in rows]


def _frozen(value: Any) -> Any:
    return tuple(cast("list[str]", value)) if isinstance(value, list) else value


def check_out(clone: Path, commit: str, root: Path) -> str:
    """Clone a clone at a commit; return why that failed, or nothing."""
    for argv in (
        ["git", "clone", "-q", "--shared", "--no-checkout", str(clone), str(root)],
        ["git", "-C", str(root), "checkout", "-q", "--detach", commit],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{argv[-1][:10]}: {done.stderr.strip().splitlines()[-1]}"
    return ""


def try_out(expected: Expected, root: Path) -> Outcome:
    """Learn a kind of a unit, commit it, make another unit and remove it.

    Raises:
        RuntimeError: A command failed; the message has what it said.
    """
    learned = run_scaffold(
        root, "init", "--like", expected.like, "--yes", "--python", sys.executable
    )
    kind = learned["draft"]["kind"]
    subprocess.run([*GIT, "add", "-A"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-q", "--no-verify", "-m", "kind"], cwd=root, check=True)
    options = [f"--{name}={value}" for name, value in expected.answers.items()]
    made = run_scaffold(root, "add", kind, expected.new, *options)
    created = [row["path"] for row in made["changes"] if row["action"] == "created"]
    broken: list[str] = []
    for path in created:
        if path.endswith(".py"):
            try:
                tree = ast.parse((root / path).read_text(encoding="utf-8"), path)
            except SyntaxError as error:
                broken.append(f"{path}: {error}")
                continue
            # A module of which nothing was learned is as good as none.
            if not tree.body and not path.endswith("__init__.py"):
                broken.append(f"{path} is empty")
    steps = {row["file"] for row in made["next"] if row["file"] not in created}
    # A file that is written from nothing is a file of the unit, and counted there.
    own = {each["path"] for each in learned["draft"]["files"]}
    items = Counter(f"file {path}" for path in own)
    items += Counter(f"line {row['file']}" for row in learned["draft"]["registry"])
    items += Counter(f"hand {path}" for path in steps if (root / path).exists())
    for path in expected.either:
        for word in ("file", "line", "hand"):
            items.pop(f"{word} {path}", None)
    run_scaffold(root, "remove", expected.new.replace(" ", "_"))
    left = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    failed = [each for each in learned["warnings"] if "cannot be imported as it is" in each]
    return Outcome(items, left, tuple(broken), tuple(failed))


def run_scaffold(root: Path, *args: str) -> dict[str, Any]:
    """Run a command in a folder and return its report.

    Raises:
        RuntimeError: It failed; the message has what it said.
    """
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "scaffold", *args, "--json"]
    done = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv[2:])} in {root}: {done.stdout or done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _of_one(name: str, expected: Expected, outcome: Outcome) -> Result:
    wanted = expected.items()
    right = wanted & outcome.items
    notes = [f"{right.total()} of {wanted.total()}"]
    for word, rows in (("missed", wanted - right), ("not expected", outcome.items - wanted)):
        notes += [f"{word}: {', '.join(sorted(rows.elements()))}"] if rows else []
    notes += ["git status is not clean"] if outcome.left else []
    notes += [*outcome.broken, *outcome.unimportable]
    return Result(
        "kinds.one", f"{name}: share found", right.total() / wanted.total(), "",
        note="; ".join(notes),
    )  # fmt: skip


def _of_all(told: Iterable[tuple[Expected, Outcome]]) -> list[Result]:
    rows = list(told)
    wanted = sum((each.items() for each, _ in rows), Counter[str]())
    right = sum(((each.items() & out.items).total() for each, out in rows), 0)
    wrong = sum(((out.items - each.items()).total() for each, out in rows), 0)
    clean = sum(not out.left for _, out in rows)
    sound = sum(not (out.broken or out.unimportable) for _, out in rows)
    return [
        Result("kinds.found", f"share of {wanted.total()} files and lines that are found",
               right / wanted.total(), ""),
        Result("kinds.wrong", "files and lines that nobody expected", float(wrong), "",
               is_higher_better=False),
        Result("kinds.clean", "share whose git status is clean after the removal",
               clean / len(rows), ""),
        Result("kinds.sound", "share whose made unit is Python that nothing keeps from importing",
               sound / len(rows), ""),
    ]  # fmt: skip
