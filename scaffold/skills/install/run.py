"""One run that installs, updates or removes: planned, listed, agreed to, and written at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from scaffold.errors import ConflictError, escaped
from scaffold.report import Report, ReportedChange
from scaffold.skills.install.lock import LOCK, LockedSkill, dump_lock, read_lock
from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.plan import FilePlan, find
from scaffold.transaction.apply import session, settle
from scaffold.transaction.backup import back_up
from scaffold.transaction.change import Change
from scaffold.transaction.leftovers import leftover_warning, settled_warning

Fate = Literal["new", "same", "changed", "gone"]
Row = tuple[Permission, Fate]

_SIGNS: dict[Fate, str] = {"new": "+", "same": " ", "changed": "~", "gone": "-"}
_NOTES = {
    "dropped": "  (dropped; --grant-tools keeps it)",
    "refused": "  (refused)",
    "": "",
}
_RUNS = frozenset({"script", "executable", "program"})

COMMAND = "skills install"

RENDERED = ".scaffold/skills.sums"
"""Where a repository that renders skills for clients itself keeps what it rendered."""

Outcome = Literal["installed", "updated", "unchanged", "removed"]


def compare(old: LockedSkill | None, new: LockedSkill) -> list[Row]:
    """Return what a skill brings, each with what became of it since it was installed last."""
    if old is None:
        return [(each, "new") for each in new.permissions]
    known = {(each.identity, each.state) for each in old.permissions}
    now = {(each.identity, each.state) for each in new.permissions}
    before = _hashes(old)
    # A file that is new is listed as such already.
    changed = {path for path, sha in _hashes(new).items() if before.get(path, sha) != sha}
    rows: list[Row] = []
    for each in new.permissions:
        is_known = (each.identity, each.state) in known
        # A script may do something new under an unchanged name.
        is_changed = each.kind in _RUNS and each.file in changed
        rows.append((each, "new" if not is_known else "changed" if is_changed else "same"))
    gone = [each for each in old.permissions if (each.identity, each.state) not in now]
    return [*rows, *((each, "gone") for each in gone)]


def listing(name: str, rows: Sequence[Row], *, is_update: bool) -> str:
    """Return the rows of one skill as text; of an update only what is not as it was."""
    shown = [row for row in rows if row[1] != "same"] if is_update else list(rows)
    verb = "changes what it brings" if is_update else "brings"
    if not shown:
        nothing = "the same as before" if is_update else "no scripts, run bits, tools, hidden text"
        return f"{name} brings {nothing}\n"
    lines = [f"{name} {verb}:"]
    for each, change in shown:
        sign = f"{_SIGNS[change]} " if is_update else ""
        note = "  (its content)" if change == "changed" else _NOTES[each.state]
        note = "  (becomes plain text)" if each.kind == "block" else note
        lines.append(f"  {sign}{each.kind:<12} {each.file}:{each.line}  {each.what}{note}")
    return "\n".join(escaped(line) for line in lines) + "\n"


def permissions_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [{**asdict(each), "change": change} for each, change in rows]


def _hashes(skill: LockedSkill) -> dict[str, str]:
    # Every root has the same files but for SKILL.md, of which Claude's has keys of its own.
    start = f"{skill.roots[0]}/{skill.name}/"
    return {
        file.path.removeprefix(start): file.sha256
        for file in skill.files
        if file.path.startswith(start)
    }


@dataclass(frozen=True)
class Options:
    """How a run goes about its work.

    Args:
        target: The folder that is installed to, resolved.
        dry_run: Whether nothing is written.
        agreed: Whether what skills bring is agreed to beforehand.
        ask: Shows a text and asks for consent; None where nobody can be asked.
        log: Takes a line before anything is written.
    """

    target: Path
    user: bool = False
    dry_run: bool = False
    agreed: bool = False
    ask: Callable[[], bool] | None = None
    log: Callable[[str], object] = field(default=lambda line: None)


@dataclass(frozen=True)
class SkillPlan:
    """What becomes of one skill.

    Args:
        locked: What the lock file is to say of it; None where it is removed.
        needs_yes: Why somebody has to agree, as lines; none where nobody has to.
    """

    name: str
    outcome: Outcome
    locked: LockedSkill | None
    files: FilePlan
    rows: tuple[Row, ...] = ()
    needs_yes: tuple[str, ...] = ()


Planner = Callable[[Mapping[str, LockedSkill]], Sequence[SkillPlan]]
"""Plans from the content of the lock file at that moment."""


def carry_out(plan: Planner, options: Options) -> Report:
    """Plan, list what skills bring, ask where that is due, and write all or nothing.

    Raises:
        ScaffoldError: Somebody does not agree, or an edited file is in the way.
    """
    report = Report(COMMAND, target_of(options), dry_run=options.dry_run)
    root = options.target
    left = leftover_warning(root) if options.dry_run else settled_warning(settle(root, COMMAND))
    report.warnings = (*left, *_other_home(options))
    plans = plan(read_lock(options.target))
    for each in plans:
        if each.outcome in ("installed", "updated"):
            text = listing(each.name, each.rows, is_update=each.outcome == "updated")
            options.log(text.rstrip("\n"))
    _check_clashes(plans)
    _agree(plans, options)
    if options.dry_run:
        return _report(report, options.target, plans, changes_of(plans, options.target))
    with session(options.target, COMMAND) as opened:
        # Planned again under the lock, as files may have changed while a person was asked.
        again = plan(read_lock(options.target))
        _check_clashes(again)
        # Nothing is written that nobody has agreed to.
        if not _needs(again) <= _needs(plans):
            raise ConflictError(
                "other skills were installed while the command ran; nothing was written",
                code="changed_meanwhile",
                hint="run the command again",
            )
        report.warnings += _kept_copies(again, options.target)
        changes = changes_of(again, options.target)
        opened.apply(changes, prune=True)
    return _report(report, options.target, again, changes)


def _needs(plans: Sequence[SkillPlan]) -> set[tuple[str, str]]:
    return {(each.name, why) for each in plans for why in each.needs_yes}


def changes_of(plans: Sequence[SkillPlan], target: Path) -> list[Change]:
    """Return the changes of all plans, with the lock file last."""
    locked = read_lock(target)
    for each in plans:
        if each.locked is None:
            locked.pop(each.name, None)
        else:
            locked[each.name] = each.locked
    changes = [change for each in plans for change in each.files.changes]
    before, after = find(target, LOCK).data, dump_lock(locked)
    # Last, so that a run that is cut short has not recorded files it never wrote.
    return [*changes, *[Change(LOCK, "record", before, after)] * (before != after)]


def target_of(options: Options) -> dict[str, str]:
    layout = "home" if options.user else "repository"
    return {"root": str(options.target), "layout": layout, "package": ""}


def _other_home(options: Options) -> tuple[str, ...]:
    """Return a warning where Claude Code looks in another folder than in that of the home."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR", "")
    if not options.user or not folder or Path(folder).resolve() == options.target / ".claude":
        return ()
    told = f"CLAUDE_CONFIG_DIR is {folder}: Claude Code looks there, and not in ~/.claude/skills"
    return (f"{told}; link its skills folder to that one",)


def _agree(plans: Sequence[SkillPlan], options: Options) -> None:
    refused = [(each.name, row) for each in plans for row, _ in each.rows if row.state == "refused"]
    if refused:
        name, row = refused[0]
        more = f" ({len(refused) - 1} more such lines)" if len(refused) > 1 else ""
        raise ConflictError(
            f"{name}/{row.file}:{row.line} hides text: {row.what}{more}; nothing was written",
            code="skill_hidden_text",
            hint=f"read the file; if it is harmless, give --allow-hidden {name}/{row.file}",
        )
    needed = [f"{each.name}: {why}" for each in plans for why in each.needs_yes]
    # An update that brings more than was agreed to needs a new consent, even in scripts.
    is_growth = any(each.outcome == "updated" and each.needs_yes for each in plans)
    if not needed or options.agreed or options.dry_run:
        return
    if options.ask is None and not is_growth:
        return  # who names a source without a terminal has chosen it
    if options.ask is None or not options.ask():
        raise ConflictError(
            f"consent is missing; nothing was written: {'; '.join(needed)}",
            code="unconfirmed",
            hint="look at it with --dry-run, then give --yes",
        )


def _check_clashes(plans: Sequence[SkillPlan]) -> None:
    blocked = [path for each in plans for path in each.files.blocked]
    if blocked:
        raise ConflictError(
            f"not a regular file: {', '.join(blocked)}; nothing was written",
            code="skill_edited",
            hint="a link or a folder is in its place: move it away, then run the command again",
        )
    conflicts = [path for each in plans for path in each.files.conflicts]
    if conflicts:
        is_removal = any(each.outcome == "removed" for each in plans)
        names = " ".join(f"--discard-edits {each.name}" for each in plans if each.files.conflicts)
        words = names if is_removal else " ".join(f"--overwrite {path}" for path in conflicts)
        raise ConflictError(
            f"edited since they were installed: {', '.join(conflicts)}; nothing was written",
            code="skill_edited",
            hint=f"keep a copy of your changes, then give {words}",
        )


def _kept_copies(plans: Sequence[SkillPlan], target: Path) -> tuple[str, ...]:
    """Copy edits that are given up to where they can be found again."""
    told: list[str] = []
    for each in plans:
        if each.files.lost:
            folder = back_up(target, f"skill-{each.name}", each.files.lost)
            told.append(f"copies of what was edited in {each.name} are in {folder}")
    return tuple(told)


def _report(
    report: Report, target: Path, plans: Sequence[SkillPlan], changes: Sequence[Change]
) -> Report:
    report.changes = tuple(_reported(change) for change in changes)
    report.extra["skills"] = [_json(each) for each in plans]
    # In a repository that renders its own skills, sync renders the new ones too.
    if (target / RENDERED).is_file() and changes:
        report.check = (("scaffold", "skills", "sync"),)  # it knows the new skills then
    kept = [path for each in plans for path in each.files.kept]
    report.warnings += tuple(f"{path} was edited and is not changed" for path in kept)
    if not report.dry_run:
        pins = ((each, each.locked.described() if each.locked else "") for each in plans)
        rows = [f"{each.outcome:<10} {each.name}  {pin}".rstrip() for each, pin in pins]
        rows = rows or ["nothing is installed"]
        rows += [f"{each.action:<10} {each.path}" for each in report.changes]
        rows += [f"next       {' '.join(argv)}" for argv in report.check]
        report.text = "\n".join(rows) + "\n"
    return report


def _reported(change: Change) -> ReportedChange:
    if change.action == "record":
        return ReportedChange(change.path, change.action)
    if b"\0" in (change.before or b"") + (change.after or b""):
        return ReportedChange(change.path, change.action, f"Binary file {change.path} differs\n")
    return change.reported


def _json(plan: SkillPlan) -> dict[str, Any]:
    lock = plan.locked
    found: dict[str, Any] = {"name": plan.name, "outcome": plan.outcome}
    if lock is not None:
        pin = {"source": lock.source, "revision": lock.revision, "commit": lock.commit}
        found |= {**pin, "version": lock.version, "roots": list(lock.roots)}
    return {**found, "brings": permissions_json(plan.rows), "edited": list(plan.files.kept)}
