"""What all commands on units share: their options, the lock they hold, what they warn of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import NamedTuple

from scaffold.errors import TargetError
from scaffold.report import ReportedChange, unified_diff
from scaffold.target.target import (
    Target,
    find_target,
)
from scaffold.templating.request import Request
from scaffold.transaction.change import Change
from scaffold.transaction.leftovers import leftover_warning, settled_warning
from scaffold.transaction.state import has_journal


class Options(NamedTuple):
    """What every command accepts.

    Args:
        folder: The working folder.
        target: What ``--target`` named, or None to look for one from the working folder.
        dry_run: Whether to write nothing.
        overwrite: What ``--overwrite`` named.
        with_format: Whether the target's formatters run on what is written.
        sample: Data that ``--from`` named, to find answers in.
        use: Configurations that are to use the unit; None for those of the project itself.
        agree: Asks a person whether to set what is described; None where nobody is there.
        any_project: Whether a project without settings of this tool is a target too.
    """

    folder: Path
    target: str | None = None
    dry_run: bool = False
    overwrite: tuple[str, ...] = ()
    with_format: bool = True
    sample: str | None = None
    use: tuple[str, ...] | None = None
    agree: Callable[[str], bool] | None = None
    any_project: bool = False

    def command(self, *words: str) -> tuple[str, ...]:
        """Return a command for the same target, as it can be run from the working folder."""
        where = () if self.target is None else ("--target", self.target)
        return ("scaffold", *words, *where)

    def find(self) -> Target:
        """Return the target that the options mean."""
        if self.target is None:
            return find_target(self.folder, any_project=self.any_project)
        if not self.target:
            raise TargetError(
                "--target is empty", code="target_missing", hint="give --target a folder"
            )
        return find_target(self.folder / self.target, exact=True, any_project=self.any_project)

    def sample_path(self) -> Path:
        """Return the data that ``--from`` named: a path from the working folder, or as it is."""
        path = Path(self.sample or "")
        return self.folder / path if (self.folder / path).exists() else path

    def overwritten(self, root: Path) -> frozenset[str]:
        """Return what ``--overwrite`` named, relative to a target's root."""
        return frozenset(_relative(path, root, self.folder) for path in self.overwrite)

    def find_settled(self, command: str) -> tuple[Target, tuple[str, ...]]:
        """Return the target that a writing command means, and what to warn of.

        An earlier run that was interrupted is settled first: a template may have been among its
        files, or a setting.
        """
        target = self.find()
        if self.dry_run or not has_journal(target.root):
            return target, leftover_warning(target.root)

        from scaffold.transaction.apply import settle  # only after a run that was interrupted

        settled = settle(target.root, command)
        return self.find(), settled_warning(settled)


def origin_warnings(request: Request) -> tuple[str, ...]:
    """Return what to say of templates that did not come with the tool."""
    parts = [request.kind, *request.styles]
    foreign = sorted({part.origin for part in parts if part.origin != "builtin"})
    return tuple(f"a template of {request.id} comes from the {each}" for each in foreign)


def reported_changes(changes: Iterable[Change]) -> tuple[ReportedChange, ...]:
    """Return changes as reports carry them."""
    return tuple(_reported(change) for change in changes)


def _reported(change: Change) -> ReportedChange:
    is_record = change.action == "record"
    diff = "" if is_record else unified_diff(change.path, change.before, change.after)
    return ReportedChange(change.path, change.action, diff)


def _relative(path: str, root: Path, folder: Path) -> str:
    """Return a path that a person named, relative to the target's root."""
    place = Path(path)
    # A path as the shell completes it, or as the report printed it.
    for candidate in (folder / place, root / place):
        if candidate.resolve().is_relative_to(root) and candidate.exists():
            return candidate.resolve().relative_to(root).as_posix()
    # What does not exist stays as it is given: it may be a file that the plan would create.
    return PurePath(path).as_posix()
