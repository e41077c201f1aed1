"""The fixtures of the rules of ``scaffold skills check``: two small repositories in one text file.

``tests/fixtures/skill_rules/RULE.txt`` looks so::

    == bad
    ?? .agents/skills/tidy/SKILL.md:6
    -- .agents/skills/tidy/SKILL.md --
    (the file)
    -- tools/run.sh -- mode=755
    (another)
    -- tools/link.sh -> run.sh --
    == near-miss
    -- .agents/skills/tidy/SKILL.md --
    (what looks alike and is right)

A tree ``before`` may stand first: it is committed, and only what the other trees broke since is
told. ``==`` opens a tree, ``??`` names a place where the rule must be found, ``--`` opens a file.
Behind it may stand ``mode=755``, and ``escaped``, which reads ``\\u200b`` and ``\\x00`` as Python
would.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures" / "skill_rules"

_TREE = re.compile(r"^== (before|bad|near-miss)$")
_PLACE = re.compile(r"^\?\? (\S+:\d+)$")
_FILE = re.compile(
    r"^-- (?P<path>\S.*?)(?: -> (?P<target>\S+))? --"
    r"(?: mode=(?P<mode>[0-7]{3}))?(?P<escaped> escaped)?$"
)


@dataclass(frozen=True)
class Entry:
    """Is one file of a tree.

    Args:
        path: Relative to the root, with forward slashes.
        data: Its content; empty for a link.
        mode: Its permissions.
        target: Where it leads, for a symbolic link.
    """

    path: str
    data: bytes
    mode: int = 0o644
    target: str | None = None


@dataclass(frozen=True)
class Tree:
    """Is a repository of a fixture.

    Args:
        entries: Its files.
        places: Where the rule must be found, as ``path:line``.
    """

    entries: tuple[Entry, ...]
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleFixture:
    """Is the fixture of a rule: a repository that breaks it, and one that only looks so.

    Args:
        rule: The rule's id.
        bad: Breaks it.
        near_miss: Looks as if it did.
        before: What is committed before either, for a rule about changes.
    """

    rule: str
    bad: Tree
    near_miss: Tree
    before: Tree | None = None


def read_fixtures(folder: Path = FOLDER) -> dict[str, RuleFixture]:
    """Returns the fixtures of a folder by their rules."""
    return {path.stem: read_fixture(path) for path in sorted(folder.glob("*.txt"))}


def read_fixture(path: Path) -> RuleFixture:
    """Reads one fixture.

    Raises:
        ValueError: It is not of the format; the message names the line.
    """
    trees: dict[str, list[tuple[int, str]]] = {}
    rows: list[tuple[int, str]] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if opening := _TREE.match(line):
            rows = trees.setdefault(opening[1], [])
        elif rows is not None:
            rows.append((number, line))
        elif line:
            raise ValueError(f"{path}:{number}: no tree is open")
    if sorted(trees.keys() - {"before"}) != ["bad", "near-miss"]:
        raise ValueError(f"{path}: it has the trees {sorted(trees)}; bad and near-miss are needed")
    bad, near_miss = (_tree(trees[name], path) for name in ("bad", "near-miss"))
    if not bad.places or near_miss.places:
        raise ValueError(f"{path}: places (??) belong into the bad tree, and only there")
    before = _tree(trees["before"], path) if "before" in trees else None
    return RuleFixture(path.stem, bad, near_miss, before)


def _tree(rows: Sequence[tuple[int, str]], path: Path) -> Tree:
    entries: list[Entry] = []
    places: list[str] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for number, line in rows:
        if found := _FILE.match(line):
            if opening is not None:
                entries.append(_entry(opening, lines))
            opening, lines = found, []
        elif opening is not None:
            lines.append(line)
        elif place := _PLACE.match(line):
            places.append(place[1])
        elif line:
            raise ValueError(f"{path}:{number}: no file is open")
    if opening is not None:
        entries.append(_entry(opening, lines))
    return Tree(tuple(entries), tuple(places))


def _entry(opening: re.Match[str], lines: Sequence[str]) -> Entry:
    text = "\n".join(lines).rstrip("\n")
    text = f"{text}\n" if text else ""
    if opening["escaped"]:
        text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    mode = int(opening["mode"] or "644", 8)
    return Entry(opening["path"], text.encode(), mode, opening["target"])


def unpack(tree: Tree, folder: Path, before: Tree | None = None) -> Path:
    """Writes a tree into a folder as a git repository whose files are staged; returns the folder.

    Args:
        tree: The tree.
        folder: An empty or missing folder.
        before: What is committed before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if before is not None:
        unpack(before, folder)
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        _git(folder, *who, "commit", "--quiet", "--no-verify", "-m", "before")
        for entry in before.entries:
            (folder / entry.path).unlink()
    for entry in tree.entries:
        place = folder / entry.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.target is not None:
            place.symlink_to(entry.target)
            continue
        place.write_bytes(entry.data)
        place.chmod(entry.mode)
    for argv in (["init", "--quiet"], ["add", "--all"]):
        _git(folder, *argv)
    return folder


def _git(folder: Path, *argv: str) -> None:
    # A user's own settings and ignored names must not change what a fixture holds.
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.autocrlf=false", *argv]
    subprocess.run(command, cwd=folder, env={**os.environ, **alone}, check=True)
