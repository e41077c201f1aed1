"""``scaffold skills sync``: updates the generated blocks and renders the pack for every client."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.analysis.files.files import list_files
from scaffold.errors import ConflictError, RequestError, ScaffoldError
from scaffold.report import Report, ReportedChange
from scaffold.skills.blocks.expected import REPAIR, Repository
from scaffold.skills.blocks.settings import Settings, read_settings
from scaffold.skills.pack.clients import claude_folder, render_clients, render_manifests
from scaffold.skills.pack.plan import SyncPlan, is_same_text, plan_sync
from scaffold.skills.pack.refresh import BlockUpdate, update_blocks
from scaffold.skills.pack.sources import SKILLS, Pack, read_bytes, read_pack
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files


def sync_skills(
    root: Path, *, check: bool, dry_run: bool = False, overwrite: frozenset[str] = frozenset()
) -> Report:
    """Render a repository's pack, or tell what is out of date.

    Args:
        check: Write and run nothing; what is behind makes the report fail.
        dry_run: Write and run nothing; report what would be written.
        overwrite: Rendered files and folders, relative to the root, whose edits may be lost.

    Raises:
        ScaffoldError: A skill or a setting cannot be read, or writing failed.
    """
    writes = not (check or dry_run)
    if writes:
        settle(root, "skills sync")  # what a run that was killed has left beside the sources
    files = list_files(root)
    repository = Repository(files, read_settings(files))
    update = update_blocks(repository, may_run=writes)
    updated = {path: after for path, (_, after) in update.documents.items()}
    pack = read_pack(files, updated)
    rendered, modes = _rendered(pack, repository.settings, updated)
    plan = plan_sync(files, rendered, modes, overwrite)
    # Sources first, then what is rendered from them; all of it is written in one step.
    changes = [
        *(Change(path, "edited", *pair) for path, pair in update.documents.items()),
        *plan.changes,
    ]
    report = Report("skills sync", dry_run=dry_run and not check)
    report.changes = tuple(_reported(each) for each in changes)
    report.warnings = tuple(_warnings(files, pack, plan, update, overwrite))
    report.extra = {"edited": plan.edited, "stray": plan.stray, "stale": update.stale}
    if changes and writes:
        apply_changes(root, changes, "skills sync", prune=True)
    if check:
        return _checked(report, changes, plan, update)
    report.found = _left_out(repository.settings) if changes else ()
    report.fail_in_part([*update.errors, *_edited(plan.edited)])
    return report


def overwritten(paths: Iterable[str], here: Path, root: Path) -> frozenset[str]:
    """Return what --overwrite names, relative to the root.

    Raises:
        RequestError: A path lies outside of the repository, or is all of it.
    """
    found: set[str] = set()
    for path in paths:
        place = Path(os.path.normpath(here / path))
        if not place.is_relative_to(root) or place == root:
            raise RequestError(
                f"--overwrite {path} is not a file or folder inside {root}",
                code="usage",
                hint="name each rendered file, or a folder of them",
            )
        found.add(place.relative_to(root).as_posix())
    return frozenset(found)


def _rendered(
    pack: Pack, settings: Settings, updated: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, bool]]:
    """Return every rendered file, and which of them can be run."""
    clients = settings.clients
    found = render_clients(pack, clients, commands=settings.commands)
    found |= render_manifests(settings, clients)
    modes: dict[str, bool] = {}
    # The other clients read the skill's folder in .agents itself.
    for skill in pack.skills if "claude" in clients else ():
        for inside, place in skill.others.items():
            source = f"{SKILLS}/{skill.name}/{inside}"
            path = claude_folder(skill) + inside
            found[path] = updated.get(source) or read_bytes(place, source)
            modes[path] = os.access(place, os.X_OK)
    return found, modes


def _left_out(settings: Settings) -> tuple[str, ...]:
    """Return what a repository does not get because it has not asked for it."""
    missing = [] if settings.plugin else ["plugin manifests (plugin)"]
    missing += [] if settings.opencode is not None else ["opencode.json (opencode)"]
    # A repository with a table has decided; nothing is suggested to it.
    if settings.is_there or not missing:
        return ()
    return (f"skipped, because [tool.scaffold.skills] does not enable it: {', '.join(missing)}",)


def _reported(change: Change) -> ReportedChange:
    # The record is the tool's own.
    return (
        ReportedChange(change.path, change.action) if change.action == "record" else change.reported
    )


def _warnings(
    files: Files, pack: Pack, plan: SyncPlan, update: BlockUpdate, overwrite: frozenset[str]
) -> list[str]:
    found = [*pack.warnings]
    found += [f"{path} has no source in .agents; delete it" for path in plan.stray]
    found += [f"{where}: its output is stale; `{REPAIR}` updates it" for where in update.stale]
    if plan.linked:
        found.append(f"{plan.linked[0]} is a link to its source; nothing is rendered there")
    missing = [path for path in sorted(overwrite) if not (files.root / path).exists()]
    found += [f"--overwrite {path}: there is no such file" for path in missing]
    return [*found, *_ignored(files, plan)]


def _ignored(files: Files, plan: SyncPlan) -> list[str]:
    """Warn of new files that git ignores: whoever clones the repository would lack them."""
    created = [each.path for each in plan.changes if each.before is None]
    # One warning for each top folder; reversed, so that the first path stays.
    first = {path.partition("/")[0]: path for path in reversed(created)}
    return [
        f"git ignores {path}: remove the pattern, or {top} stays on this machine only"
        for top, path in sorted(first.items())
        if files.ignored([path])
    ]


def _edited(paths: list[str]) -> list[ScaffoldError]:
    words = " ".join(f"--overwrite {path}" for path in paths)
    error = ConflictError(
        f"edited since it was rendered, and left alone: {', '.join(paths)}",
        code="output_edited",
        hint=f"move the edit to its source under .agents, or discard it: {REPAIR} {words}",
    )
    return [error] if paths else []


def _checked(report: Report, changes: list[Change], plan: SyncPlan, update: BlockUpdate) -> Report:
    rows = [
        f"behind     {each.path}{' (its run bits)' * (each.before == each.after)}"
        for each in changes
        # A fresh clone with CRLF is not behind.
        if each.before == each.after or not is_same_text(each.before, each.after)
    ]
    rows += [f"stale      {where}" for where in update.stale]
    rows += [f"edited     {path}" for path in plan.edited]
    rows += [f"stray      {path}" for path in plan.stray]
    rows += [f"wrong      {error.message}" for error in update.errors]
    report.ok = not rows
    report.text = f"{plan.count} rendered files are in sync with .agents\n"
    if rows:
        report.check = (tuple(REPAIR.split()),)
        report.text = "\n".join([*rows, f"repair     {REPAIR}"]) + "\n"
    return report
