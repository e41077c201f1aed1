"""Renders ``.agents/skills`` for Claude Code, which looks in ``.claude/skills`` only.

The body of a skill stays the same byte for byte. The front matter gains what Claude alone
understands: an entry ``claude-argument-hint: X`` under ``metadata`` becomes ``argument-hint: X``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scaffold.changes import Change
from scaffold.report import Report, ReportedChange, unified_diff
from scaffold.skills.claude import for_claude
from scaffold.spec import TargetError

SOURCE = ".agents/skills"
RENDERED = ".claude/skills"
REPAIR = "scaffold skills sync"


def find_skills(start: Path) -> Path:
    """Returns the nearest folder, not beyond the git root, that holds ``.agents/skills``.

    Raises:
        TargetError: There is none.
    """
    for folder in (start, *start.parents):
        if (folder / SOURCE).is_dir():
            return folder
        if (folder / ".git").exists():
            break
    raise TargetError(
        f"no {SOURCE} in {start} or above it",
        code="target_missing",
        hint="go into the repository that holds the skills, or name it with --target DIR",
    )


def sync_skills(root: Path, *, check: bool, dry_run: bool = False) -> Report:
    """Renders every skill of a repository, or tells which renderings have fallen behind.

    Args:
        root: The repository.
        check: Write nothing; what differs makes the report fail.
        dry_run: Write nothing; report what would be written.

    Raises:
        ScaffoldError: A skill has no readable front matter, or writing failed.
    """
    wanted = render_skills(root)
    changes = [
        Change(path, "created" if before is None else "edited", before, data)
        for path, data in wanted.items()
        if (before := _read(root / path)) != data
    ]
    stray = _stray(root, wanted)
    report = Report("skills sync", dry_run=dry_run and not check)
    report.changes = tuple(
        ReportedChange(c.path, c.action, unified_diff(c.path, c.before, c.after)) for c in changes
    )
    report.warnings = tuple(f"{path} has no source in {SOURCE}; delete it" for path in stray)
    if check:
        return _checked(report, len(wanted))
    if changes and not dry_run:
        from scaffold.apply import apply_changes

        apply_changes(root, changes, "skills sync")
    return report


def render_skills(root: Path) -> dict[str, bytes]:
    """Returns every rendered file by its path, relative to the root.

    Raises:
        ScaffoldError: A skill has no readable front matter.
    """
    source = root / SOURCE
    rendered: dict[str, bytes] = {}
    for skill in sorted(path for path in source.iterdir() if (path / "SKILL.md").is_file()):
        for path in sorted(path for path in skill.rglob("*") if path.is_file()):
            place = path.relative_to(source).as_posix()
            is_skill = path == skill / "SKILL.md"
            data = path.read_bytes()
            rendered[f"{RENDERED}/{place}"] = (
                for_claude(data, f"{SOURCE}/{place}") if is_skill else data
            )
    return rendered


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _stray(root: Path, wanted: Mapping[str, bytes]) -> list[str]:
    """Returns files in rendered skills that no source stands behind."""
    folders = {path.split("/")[2] for path in wanted}
    places = [
        path.relative_to(root).as_posix()
        for folder in sorted(folders)
        for path in sorted((root / RENDERED / folder).rglob("*"))
        if path.is_file()
    ]
    return [place for place in places if place not in wanted]


def _checked(report: Report, count: int) -> Report:
    report.ok = not report.changes and not report.warnings
    if report.ok:
        report.text = f"{count} rendered files are in step with {SOURCE}\n"
        return report
    rows = [f"behind     {change.path}" for change in report.changes]
    report.check = (tuple(REPAIR.split()),)
    report.text = "\n".join([*rows, f"repair     {REPAIR}"]) + "\n"
    return report
