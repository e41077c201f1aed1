"""Pages that show a registry: the generated blocks of skills and guides, written anew."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.report import ReportedChange
from scaffold.skills.pack.plan import RECORD
from scaffold.skills.pack.sync import sync_skills

COMMAND = "scaffold skills sync"


class Renewed(NamedTuple):
    """What was written anew, and what is still behind."""

    changes: tuple[ReportedChange, ...] = ()
    problems: tuple[str, ...] = ()


def renew(root: Path, *, writes: bool) -> Renewed:
    """Render the skills of a repository that renders some; else report what is behind."""
    if not (root / RECORD).is_file():
        return Renewed()
    try:
        report = sync_skills(root, check=not writes)
    except ScaffoldError as error:
        return Renewed(problems=(f"{COMMAND}: {error.message}",))
    if writes:
        problems = () if report.error is None else (f"{COMMAND}: {report.error.message}",)
        return Renewed(report.changes, problems)
    behind = ", ".join(change.path for change in report.changes)
    return Renewed(problems=() if report.ok else (f"out of date: {behind}; run {COMMAND}",))
