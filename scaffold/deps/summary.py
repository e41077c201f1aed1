"""``scaffold deps summary``: one page of what an upgrade changes, down to the last lock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.audit import Audited, audit_tree, places, told_of
from scaffold.deps.import_names import OWN_NAME, names_of
from scaffold.deps.lock_changes import LockChange, lock_changes
from scaffold.errors import RequestError, ScaffoldError
from scaffold.report import Report

_LEVELS = ("breaks", "check", "deprecated", "guarded")


@dataclass(frozen=True)
class Upgrade:
    """One package that changed.

    Args:
        audited: What the audit found; None where there was none.
        why: Why there was no audit, or "".
    """

    change: LockChange
    audited: Audited | None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        change = self.change
        row: dict[str, Any] = {"package": change.name, "old": change.old, "new": change.new}
        row |= {"files": list(change.paths), "major": change.is_major, "why": self.why}
        return row | {"audit": None if self.audited is None else told_of(self.audited)}


def summary(root: Path, since: str, output: str | None, python: str | None = None) -> Report:
    """Compare the locks and exact pins of a tree with a commit, and audit what the code imports.

    Args:
        output: The file to write it to, relative to the root; None for stdout.
        python: The interpreter whose pip is asked; None for the one that runs this.

    Raises:
        ScaffoldError: There is no such commit, or the page cannot be written.
    """
    files = list_files(root)
    upgrades = [_upgrade(files, each, python) for each in lock_changes(files, since)]
    text = "\n".join(_page(root.name, since, upgrades)) + "\n"
    report = Report("deps summary")
    broken = [each for each in upgrades if each.audited and each.audited.count("breaks")]
    report.ok = not broken
    report.extra = {"deps": {"upgrades": [each.to_json() for each in upgrades]}}
    report.next = tuple(step for each in broken if each.audited for step in each.audited.steps)
    report.text = text
    if output is not None:
        try:
            (root / output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise RequestError(
                f"{output} cannot be written: {error.strerror}", code="source_unreadable"
            ) from error
        report.text = f"written    {output}: {len(upgrades)} packages changed\n"
    return report


def _upgrade(files: Files, change: LockChange, python: str | None) -> Upgrade:
    if not change.is_move:
        why = "it came" if not change.old else "it went" if not change.new else "several releases"
        return Upgrade(change, None, why)
    names = names_of(files, change.name)
    # Without metadata the import name is a guess: strawberry-graphql is imported as strawberry.
    guesses = change.name.split("-") if names.source == OWN_NAME else []
    tops = "|".join(re.escape(each) for each in [*names.imports, *guesses])
    pattern = re.compile(rf"^[ \t]*(?:import|from)[ \t]+(?:{tops})\b".encode(), re.MULTILINE)
    unused = Upgrade(change, None, "nothing here imports it")
    if not any(pattern.search(files.data(path) or b"") for path in files.python):
        return unused
    try:
        found = audit_tree(files, change.name, change.old, change.new, python)
        return Upgrade(change, found) if found.uses else unused
    except ScaffoldError as error:
        return Upgrade(change, None, f"it could not be audited: {error}")


def _page(name: str, since: str, upgrades: list[Upgrade]) -> Iterator[str]:
    yield from (f"# Upgrade of {name} since {since}", "")
    if not upgrades:
        yield "No lock and no exact pin changed."
        return
    yield from (f"{len(upgrades)} packages changed.", "")
    yield "| package | from | to | in | breaks | check | deprecated | guarded | not audited |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in sorted(upgrades, key=_weight):
        change, found = each.change, each.audited
        counts = [str(found.count(level)) if found else "" for level in _LEVELS]
        major = " (major)" if change.is_major else ""
        cells = [change.name + major, change.old or "-", change.new or "-", ", ".join(change.paths)]
        yield "| " + " | ".join([*cells, *counts, _plain(each.why).replace("|", "\\|")]) + " |"
    for each in sorted(upgrades, key=_weight):
        told = list(_details(each.audited)) if each.audited else []
        if told:
            yield from ("", f"## {each.change.name} {each.change.old} to {each.change.new}", "")
            yield from told
    unread = [each for each in upgrades if each.audited is None and each.change.is_major]
    if unread:
        yield from ("", "## To read by hand", "", "These changed their major without an audit:", "")
        for each in unread:
            yield f"- {each.change.name} {each.change.old} to {each.change.new}: {each.why}"


def _weight(each: Upgrade) -> tuple[int, int, str]:
    breaks = each.audited.count("breaks") if each.audited else 0
    return -breaks, not each.change.is_major, each.change.name


def _details(found: Audited) -> Iterator[str]:
    told = told_of(found)
    for each in told["changes"]:
        if each["level"] in _LEVELS:
            likely = f"; likely `{each['likely']}`" if each["likely"] else ""
            yield f"- **{each['level']}** `{each['name']}`: {_plain(each['why'])}{likely}"
            yield f"  - `{'`; `'.join(places(each['sites']))}`"
    for each in told["meanings"]:
        yield f"- **meaning** {each['says']} ([source]({each['source']}))"
        if each["sites"]:
            yield f"  - may concern `{'`; `'.join(places(each['sites']))}`"


def _plain(text: str) -> str:
    return re.sub(r"([*_<>\[\]])", r"\\\1", " ".join(text.split()))
